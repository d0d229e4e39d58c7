// Convert, save, diff, edits of metadata.
#include <cstring>

#include "native.hpp"

namespace htpy {

// The options of a conversion and the memory that they point to.
class ConvertOptions {
 public:
  // `given` is a tuple: options (dict), include, exclude (lists of str), renames, types (lists of pairs).
  bool set(PyObject* given);
  ht_convert_options* get() { return &options_; }

 private:
  bool set_renames(PyObject* list);
  bool set_types(PyObject* list);

  ht_convert_options options_{};
  Filter filter_;
  Block<ht_rename> renames_;
  Block<ht_type_rule> types_;
};

bool ConvertOptions::set_renames(PyObject* list) {
  const Py_ssize_t count = PyList_Size(list);
  if (count < 0 || !renames_.allocate(static_cast<size_t>(count))) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    ht_rename& rename = renames_[static_cast<size_t>(i)];
    if (!PyArg_ParseTuple(PyList_GetItem(list, i), "ss", &rename.from, &rename.to)) return false;
  }
  options_.renames = renames_.data();
  options_.rename_count = static_cast<size_t>(count);
  return true;
}

bool ConvertOptions::set_types(PyObject* list) {
  const Py_ssize_t count = PyList_Size(list);
  if (count < 0 || !types_.allocate(static_cast<size_t>(count))) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    int type = 0;
    ht_type_rule& rule = types_[static_cast<size_t>(i)];
    if (!PyArg_ParseTuple(PyList_GetItem(list, i), "si", &rule.pattern, &type)) return false;
    rule.type = static_cast<ht_type>(type);
  }
  options_.types = types_.data();
  options_.type_count = static_cast<size_t>(count);
  return true;
}

bool ConvertOptions::set(PyObject* given) {
  static const Field fields[] = {
      {"format", Kind::text, offsetof(ht_convert_options, format)},
      {"dequantize", Kind::enumeration, offsetof(ht_convert_options, dequantize)},
      {"rounding", Kind::enumeration, offsetof(ht_convert_options, rounding)},
      {"saturate", Kind::flag, offsetof(ht_convert_options, saturate)},
      {"seed", Kind::u64, offsetof(ht_convert_options, seed)},
      {"alignment", Kind::u64, offsetof(ht_convert_options, alignment)},
      {"canonical", Kind::flag, offsetof(ht_convert_options, canonical)},
      {"normalize_layout", Kind::flag, offsetof(ht_convert_options, normalize_layout)},
      {"share_blocks", Kind::flag, offsetof(ht_convert_options, share_blocks)},
      {"plain", Kind::flag, offsetof(ht_convert_options, plain)},
      {"skip_metadata", Kind::flag, offsetof(ht_convert_options, skip_metadata)},
      {"empty_metadata", Kind::flag, offsetof(ht_convert_options, empty_metadata)},
      {"shard_size", Kind::u64, offsetof(ht_convert_options, shard_bytes)},
      {"round", Kind::flag, offsetof(ht_convert_options, round)},
      {"drop_metadata", Kind::flag, offsetof(ht_convert_options, drop_metadata)},
      {"raw_bytes", Kind::flag, offsetof(ht_convert_options, raw_bytes)},
      {"lossy", Kind::flag, offsetof(ht_convert_options, lossy)},
      {"seal", Kind::flag, offsetof(ht_convert_options, seal)},
      {"force", Kind::flag, offsetof(ht_convert_options, force)},
      {"dry_run", Kind::flag, offsetof(ht_convert_options, dry_run)},
      {"emit_mlir", Kind::path, offsetof(ht_convert_options, emit_mlir)},
      {"scope", Kind::text, offsetof(ht_convert_options, scope)},
      {"inline_below", Kind::u64, offsetof(ht_convert_options, inline_below)},
  };
  PyObject *dict = nullptr, *include = nullptr, *exclude = nullptr, *renames = nullptr, *types = nullptr;
  if (!PyArg_ParseTuple(given, "O!O!O!O!O!", &PyDict_Type, &dict, &PyList_Type, &include, &PyList_Type,
                        &exclude, &PyList_Type, &renames, &PyList_Type, &types))
    return false;
  options_.size = sizeof options_;
  if (!fill(dict, fields, sizeof fields / sizeof *fields, &options_)) return false;
  if (!filter_.set(include, exclude) || !set_renames(renames) || !set_types(types)) return false;
  options_.filter = filter_.get();
  return true;
}

static PyObject* loss_of(const ht_loss& loss) {
  static const char* const kinds[] = {"metadata", "raw_bytes", "rounding"};
  Ref dict(PyDict_New());
  const bool ok = dict && put(dict.get(), "kind", text_of(kinds[loss.kind])) &&
                  put(dict.get(), "allowed", PyBool_FromLong(loss.is_allowed)) &&
                  put(dict.get(), "is_tensor", PyBool_FromLong(loss.is_tensor)) &&
                  put(dict.get(), "name", text_of(loss.name)) && put(dict.get(), "why", text_of(loss.why)) &&
                  put(dict.get(), "hint", text_of(loss.hint)) &&
                  put(dict.get(), "change", text_of(loss.change));
  return ok ? dict.release() : nullptr;
}

static PyObject* to_dict(const ht_conversion_report& done) {
  Ref dict(PyDict_New());
  const auto number = [](uint64_t bytes) { return PyLong_FromUnsignedLongLong(bytes); };
  const bool ok =
      dict && put(dict.get(), "path", path_of(done.path)) &&
      put(dict.get(), "files", list_of(done.file_count, [&](size_t i) { return path_of(done.files[i]); })) &&
      put(dict.get(), "file_bytes",
          list_of(done.file_count, [&](size_t i) { return number(done.file_bytes[i]); })) &&
      put(dict.get(), "bytes", number(done.bytes)) &&
      put(dict.get(), "copied_by",
          Py_BuildValue("{s:K,s:K,s:K,s:K}", "reflink", static_cast<unsigned long long>(done.reflink_bytes),
                        "direct", static_cast<unsigned long long>(done.direct_bytes), "copy_file_range",
                        static_cast<unsigned long long>(done.copy_file_range_bytes), "read_write",
                        static_cast<unsigned long long>(done.read_write_bytes))) &&
      put(dict.get(), "removed",
          list_of(done.removed_count, [&](size_t i) { return path_of(done.removed[i]); })) &&
      put(dict.get(), "seal", path_of(done.seal)) &&
      put(dict.get(), "stale_seal", path_of(done.stale_seal)) &&
      put(dict.get(), "losses",
          list_of(done.loss_count, [&](size_t i) { return loss_of(*done.losses[i]); })) &&
      put(dict.get(), "warnings", list_of(done.warning_count, [&](size_t i) {
            return to_exception(ht_error_code(done.warnings[i]), done.warnings[i]);
          }));
  return ok ? dict.release() : nullptr;
}

// convert(model, target, options, progress)
static PyObject* convert(PyObject*, PyObject* arguments) {
  PyObject *model = nullptr, *given = nullptr, *progress = nullptr;
  const char* target = nullptr;
  if (!PyArg_ParseTuple(arguments, "OyO!O", &model, &target, &PyTuple_Type, &given, &progress))
    return nullptr;
  const Use use(handle_of(model));
  ConvertOptions options;
  if (!use || !options.set(given)) return nullptr;
  Result<ht_conversion_report> done;
  Work work(progress);
  if (!work.run([&](const ht_work* state, ht_error** error) {
        options.get()->work = state;
        return ht_model_convert(use.model(), target, options.get(), done.out(), error);
      }))
    return nullptr;
  return to_dict(*done.operator->());
}

// Tensors to save and the memory that they refer to.
class Tensors {
 public:
  Tensors() = default;
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;
  ~Tensors() {
    for (size_t i = 0; i < count_; ++i) {
      if (views_[i].obj) PyBuffer_Release(&views_[i]);
      PyMem_Free(dims_[i]);
    }
  }
  // Items: (name, tensor), (name, capsule) or (name, type, shape, buffer). The list must outlive the object.
  bool set(PyObject* list);
  const ht_tensor_to_save* data() { return tensors_.data(); }
  size_t count() const { return count_; }

 private:
  bool set_item(PyObject* item, size_t i);
  bool set_memory(PyObject* item, size_t i);

  Block<ht_tensor_to_save> tensors_;
  Block<Py_buffer> views_;
  Block<int64_t*> dims_;
  size_t count_ = 0;
};

bool Tensors::set(PyObject* list) {
  const Py_ssize_t count = PyList_Size(list);
  if (count < 0) return false;
  const size_t size = static_cast<size_t>(count);
  if (!tensors_.allocate(size) || !views_.allocate(size) || !dims_.allocate(size)) return false;
  count_ = size;
  for (size_t i = 0; i < size; ++i) {
    tensors_[i].size = sizeof(ht_tensor_to_save);
    if (!set_item(PyList_GetItem(list, static_cast<Py_ssize_t>(i)), i)) return false;
  }
  return true;
}

bool Tensors::set_item(PyObject* item, size_t i) {
  PyObject* name = PyTuple_GetItem(item, 0);
  Py_ssize_t size = 0;
  if (!name) return false;
  tensors_[i].name.data = PyUnicode_AsUTF8AndSize(name, &size);
  tensors_[i].name.size = static_cast<size_t>(size);
  if (!tensors_[i].name.data) return false;
  if (PyTuple_Size(item) == 4) return set_memory(item, i);
  PyObject* value = PyTuple_GetItem(item, 1);
  if (!value) return false;
  ht_error* error = nullptr;
  ht_status status = HT_OK;
  if (PyObject_TypeCheck(value, tensor_type)) {
    tensors_[i].tensor = tensor_of(reinterpret_cast<TensorObject*>(value));
    return tensors_[i].tensor != nullptr;
  }
  // The capsule keeps its name, so its destructor deletes the DLPack tensor. The import does not write
  // `tensors_[i].name`.
  if (PyCapsule_IsValid(value, "dltensor_versioned")) {
    auto* managed = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(value, "dltensor_versioned"));
    status = ht_from_dlpack_versioned(managed, &tensors_[i], &error);
  } else {
    auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(value, "dltensor"));
    if (!managed) return false;
    status = ht_from_dlpack(managed, &tensors_[i], &error);
  }
  if (status == HT_OK) return true;
  raise(status, error);
  return false;
}

bool Tensors::set_memory(PyObject* item, size_t i) {
  PyObject *name = nullptr, *shape = nullptr, *buffer = nullptr;
  int type = 0;
  if (!PyArg_ParseTuple(item, "OiO!O", &name, &type, &PyTuple_Type, &shape, &buffer)) return false;
  const size_t rank = static_cast<size_t>(PyTuple_Size(shape));
  dims_[i] = static_cast<int64_t*>(PyMem_Malloc((rank ? rank : 1) * sizeof(int64_t)));
  if (!dims_[i]) {
    PyErr_NoMemory();
    return false;
  }
  for (size_t d = 0; d < rank; ++d) {
    dims_[i][d] = PyLong_AsLongLong(PyTuple_GetItem(shape, static_cast<Py_ssize_t>(d)));
    if (dims_[i][d] == -1 && PyErr_Occurred()) return false;
  }
  if (PyObject_GetBuffer(buffer, &views_[i], PyBUF_C_CONTIGUOUS) != 0) {
    views_[i].obj = nullptr;
    return false;
  }
  tensors_[i].type = static_cast<ht_type>(type);
  tensors_[i].rank = static_cast<uint32_t>(rank);
  tensors_[i].dims = dims_[i];
  tensors_[i].data = views_[i].buf;
  tensors_[i].bytes = static_cast<size_t>(views_[i].len);
  return true;
}

// The arguments of a save. The Python objects must outlive it.
class Save {
 public:
  // `given` as in ConvertOptions.
  bool set(PyObject* tensors, PyObject* metadata, PyObject* given) {
    if (!tensors_.set(tensors) || !metadata_.set(metadata) || !convert_.set(given)) return false;
    options_.size = sizeof options_;
    options_.convert = convert_.get();
    options_.metadata = metadata_.items();
    options_.metadata_count = metadata_.count();
    return true;
  }
  const ht_tensor_to_save* tensors() { return tensors_.data(); }
  size_t count() const { return tensors_.count(); }
  const ht_save_options* options(const ht_work* work) {
    convert_.get()->work = work;
    return &options_;
  }

 private:
  Tensors tensors_;
  Metadata metadata_;
  ConvertOptions convert_;
  ht_save_options options_{};
};

// save(target, tensors, metadata, options, progress)
static PyObject* save(PyObject*, PyObject* arguments) {
  PyObject *list = nullptr, *dict = nullptr, *given = nullptr, *progress = nullptr;
  const char* target = nullptr;
  if (!PyArg_ParseTuple(arguments, "yO!O!O!O", &target, &PyList_Type, &list, &PyDict_Type, &dict,
                        &PyTuple_Type, &given, &progress))
    return nullptr;
  Save saving;
  if (!saving.set(list, dict, given)) return nullptr;
  Result<ht_conversion_report> done;
  Work work(progress);
  if (!work.run([&](const ht_work* state, ht_error** error) {
        return ht_save(target, saving.tensors(), saving.count(), saving.options(state), done.out(), error);
      }))
    return nullptr;
  return to_dict(*done.operator->());
}

// The context of `allocate_bytes`.
struct NewBytes {
  PyObject* bytes;
};

// Creates the bytes object. The library calls this function without the GIL.
static void* allocate_bytes(void* context, size_t size) {
  if (is_finalizing()) return nullptr;
  auto* target = static_cast<NewBytes*>(context);
  return without_unwinding([&]() -> void* {
    const PyGILState_STATE state = PyGILState_Ensure();
    target->bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size));
    if (!target->bytes) PyErr_Clear();
    char* memory = target->bytes ? PyBytes_AsString(target->bytes) : nullptr;
    PyGILState_Release(state);
    return memory;
  });
}

// save_to_memory(tensors, metadata, options, progress)
static PyObject* save_to_memory(PyObject*, PyObject* arguments) {
  PyObject *list = nullptr, *dict = nullptr, *given = nullptr, *progress = nullptr;
  if (!PyArg_ParseTuple(arguments, "O!O!O!O", &PyList_Type, &list, &PyDict_Type, &dict, &PyTuple_Type, &given,
                        &progress))
    return nullptr;
  Save saving;
  if (!saving.set(list, dict, given)) return nullptr;
  NewBytes target{nullptr};
  Work work(progress);
  if (!work.run([&](const ht_work* state, ht_error** error) {
        return ht_save_to_memory(saving.tensors(), saving.count(), saving.options(state), allocate_bytes,
                                 &target, error);
      })) {
    Py_XDECREF(target.bytes);
    return nullptr;
  }
  return target.bytes ? target.bytes : PyBytes_FromStringAndSize("", 0);
}

static PyObject* double_or_none(double value) {
  if (value != value) Py_RETURN_NONE;
  return PyFloat_FromDouble(value);
}

static PyObject* difference_of(const ht_difference& found) {
  static const char* const kinds[] = {"dtype", "shape", "contents", "note"};
  Ref dict(PyDict_New());
  PyObject* first = Py_None;
  if (found.first_byte == UINT64_MAX)
    Py_INCREF(Py_None);
  else
    first = PyLong_FromUnsignedLongLong(found.first_byte);
  const bool ok = dict && put(dict.get(), "first_byte", first) &&
                  put(dict.get(), "name", text_of(found.name)) &&
                  put(dict.get(), "why", text_of(kinds[found.why])) &&
                  put(dict.get(), "max_abs", double_or_none(found.max_abs)) &&
                  put(dict.get(), "rms", double_or_none(found.rms)) &&
                  put(dict.get(), "cosine", double_or_none(found.cosine));
  return ok ? dict.release() : nullptr;
}

// diff(a, b, options, progress)
static PyObject* diff(PyObject*, PyObject* arguments) {
  static const Field fields[] = {
      {"compare_values", Kind::flag, offsetof(ht_diff_options, compare_values)},
      {"tolerance", Kind::f64, offsetof(ht_diff_options, tolerance)},
  };
  PyObject *a = nullptr, *b = nullptr, *dict = nullptr, *progress = nullptr;
  if (!PyArg_ParseTuple(arguments, "OOO!O", &a, &b, &PyDict_Type, &dict, &progress)) return nullptr;
  const Use use_a(handle_of(a));
  if (!use_a) return nullptr;
  const Use use_b(handle_of(b));
  ht_diff_options options{};
  options.size = sizeof options;
  if (!use_b || !fill(dict, fields, sizeof fields / sizeof *fields, &options)) return nullptr;
  Result<ht_differences> found;
  Work work(progress);
  if (!work.run([&](const ht_work* state, ht_error** error) {
        options.work = state;
        return ht_diff(use_a.model(), use_b.model(), &options, found.out(), error);
      }))
    return nullptr;
  const auto texts = [](const ht_string* items, size_t count) {
    return list_of(count, [&](size_t i) { return text_of(items[i]); });
  };
  Ref result(PyDict_New());
  const bool ok =
      result && put(result.get(), "same", PyBool_FromLong(found->same)) &&
      put(result.get(), "same_tensors", PyBool_FromLong(found->same_tensors)) &&
      put(result.get(), "only_a", texts(found->only_a, found->only_a_count)) &&
      put(result.get(), "only_b", texts(found->only_b, found->only_b_count)) &&
      put(result.get(), "differ",
          list_of(found->differ_count, [&](size_t i) { return difference_of(*found->differ[i]); })) &&
      put(result.get(), "metadata_only_a", texts(found->metadata_only_a, found->metadata_only_a_count)) &&
      put(result.get(), "metadata_only_b", texts(found->metadata_only_b, found->metadata_only_b_count)) &&
      put(result.get(), "metadata_differ", texts(found->metadata_differ, found->metadata_differ_count));
  return ok ? result.release() : nullptr;
}

// edit_metadata(path, {key: None to remove, or a value}, options, progress)
static PyObject* edit_metadata(PyObject*, PyObject* arguments) {
  static const Field fields[] = {
      {"no_grow", Kind::flag, offsetof(ht_edit_options, no_grow)},
      {"max_header", Kind::u64, offsetof(ht_edit_options, max_header_bytes)},
  };
  const char* path = nullptr;
  PyObject *dict = nullptr, *given = nullptr, *progress = nullptr;
  if (!PyArg_ParseTuple(arguments, "yO!O!O", &path, &PyDict_Type, &dict, &PyDict_Type, &given, &progress))
    return nullptr;
  ht_edit_options options{};
  options.size = sizeof options;
  if (!fill(given, fields, sizeof fields / sizeof *fields, &options)) return nullptr;
  const size_t count = static_cast<size_t>(PyDict_Size(dict));
  Block<ht_metadata_edit> edits(count);
  Block<ht_value> values(count);
  Metadata memory;
  if (!edits.ok() || !values.ok()) return nullptr;
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  for (size_t i = 0; PyDict_Next(dict, &position, &key, &value); ++i) {
    Py_ssize_t size = 0;
    edits[i].key.data = PyUnicode_AsUTF8AndSize(key, &size);
    edits[i].key.size = static_cast<size_t>(size);
    if (!edits[i].key.data) return nullptr;
    if (value == Py_None) continue;
    if (!memory.to_value(value, &values[i])) return nullptr;
    edits[i].value = &values[i];
  }
  Result<ht_edit_report> edited;
  Work work(progress);
  if (!work.run([&](const ht_work* state, ht_error** error) {
        options.work = state;
        return ht_edit_metadata(path, edits.data(), count, &options, edited.out(), error);
      }))
    return nullptr;
  return PyBool_FromLong(edited->changed);
}

PyMethodDef convert_functions[] = {{"convert", convert, METH_VARARGS, nullptr},
                                   {"save", save, METH_VARARGS, nullptr},
                                   {"save_to_memory", save_to_memory, METH_VARARGS, nullptr},
                                   {"diff", diff, METH_VARARGS, nullptr},
                                   {"edit_metadata", edit_metadata, METH_VARARGS, nullptr},
                                   {nullptr, nullptr, 0, nullptr}};

}  // namespace htpy
