// Seal, verify, hash.
#include <cstring>

#include "native.hpp"

namespace htpy {

static const char* const hash_names[] = {"crc64nvme", "crc64nvme", "xxh3-128", "sha256"};

static bool fill_hash_options(PyObject* dict, ht_hash_options* options) {
  static const Field fields[] = {
      {"algorithm", Kind::enumeration, offsetof(ht_hash_options, algorithm)},
      {"per_tensor", Kind::flag, offsetof(ht_hash_options, per_tensor)},
      {"force", Kind::flag, offsetof(ht_hash_options, force)},
      {"max_splat", Kind::u64, offsetof(ht_hash_options, max_splat_bytes)},
  };
  options->size = sizeof *options;
  return fill(dict, fields, sizeof fields / sizeof *fields, options);
}

static PyObject* entry_of(const ht_seal_entry& entry) {
  Ref name(text_of(entry.name));
  Ref digest(hex_of(entry.digest));
  if (!name || !digest) return nullptr;
  return PyTuple_Pack(2, name.get(), digest.get());
}

template <class Get>
static PyObject* entries_of(size_t count, Get get) {
  return list_of(count, [&](size_t i) -> PyObject* {
    ht_seal_entry entry{};
    entry.size = sizeof entry;
    ht_error* error = nullptr;
    const ht_status status = get(i, &entry, &error);
    return status == HT_OK ? entry_of(entry) : raise(status, error);
  });
}

static PyObject* to_dict(const ht_seal* seal) {
  ht_seal_info info{};
  info.size = sizeof info;
  ht_error* error = nullptr;
  const ht_status status = ht_seal_describe(seal, &info, &error);
  if (status != HT_OK) return raise(status, error);
  Ref dict(PyDict_New());
  const bool ok = dict && put(dict.get(), "path", path_of(info.path)) &&
                  put(dict.get(), "algorithm", text_of(hash_names[info.digest.algorithm])) &&
                  put(dict.get(), "digest", hex_of(info.digest)) &&
                  put(dict.get(), "bytes", PyLong_FromUnsignedLongLong(info.bytes)) &&
                  put(dict.get(), "files",
                      entries_of(info.file_count,
                                 [&](size_t i, ht_seal_entry* entry, ht_error** failed) {
                                   return ht_seal_file(seal, i, entry, failed);
                                 })) &&
                  put(dict.get(), "tensors",
                      entries_of(info.tensor_count, [&](size_t i, ht_seal_entry* entry, ht_error** failed) {
                        return ht_seal_tensor(seal, i, entry, failed);
                      }));
  return ok ? dict.release() : nullptr;
}

// seal(model, options, progress)
static PyObject* seal(PyObject*, PyObject* arguments) {
  PyObject *model = nullptr, *dict = nullptr, *progress = nullptr;
  if (!PyArg_ParseTuple(arguments, "OO!O", &model, &PyDict_Type, &dict, &progress)) return nullptr;
  const Use use(handle_of(model));
  ht_hash_options options{};
  if (!use || !fill_hash_options(dict, &options)) return nullptr;
  ht_seal* created = nullptr;
  Work work(progress);
  if (!work.run([&](const ht_work* state, ht_error** error) {
        options.work = state;
        return ht_model_seal(use.model(), &options, &created, error);
      })) {
    ht_seal_free(created);
    return nullptr;
  }
  PyObject* result = to_dict(created);
  ht_seal_free(created);
  return result;
}

static PyObject* read_seal(PyObject*, PyObject* arguments) {
  const char* path = nullptr;
  if (!PyArg_ParseTuple(arguments, "y", &path)) return nullptr;
  ht_seal* found = nullptr;
  if (!unlocked([&](ht_error** error) { return ht_seal_read(path, &found, error); })) return nullptr;
  PyObject* result = to_dict(found);
  ht_seal_free(found);
  return result;
}

static bool fill_verify_options(PyObject* dict, ht_verify_options* options) {
  static const Field fields[] = {
      {"quick", Kind::flag, offsetof(ht_verify_options, quick)},
      {"max_header", Kind::u64, offsetof(ht_verify_options, max_header_bytes)},
  };
  options->size = sizeof *options;
  return fill(dict, fields, sizeof fields / sizeof *fields, options);
}

static PyObject* range_of(const ht_bad_range& range) {
  static const char* const parts[] = {"header", "tensor", "gap", "tail"};
  Ref dict(PyDict_New());
  Ref tensor(range.part == HT_PART_TENSOR ? text_of(range.tensor) : nullptr);
  if (range.part == HT_PART_TENSOR && !tensor) return nullptr;
  const bool ok = dict && put(dict.get(), "file", path_of(range.file)) &&
                  put(dict.get(), "part", text_of(parts[range.part])) &&
                  PyDict_SetItemString(dict.get(), "tensor", tensor ? tensor.get() : Py_None) == 0 &&
                  put(dict.get(), "offset", PyLong_FromUnsignedLongLong(range.offset)) &&
                  put(dict.get(), "bytes", PyLong_FromUnsignedLongLong(range.bytes));
  return ok ? dict.release() : nullptr;
}

// verify(path, options, progress)
static PyObject* verify(PyObject*, PyObject* arguments) {
  static const char* const verdicts[] = {"intact",    "headers_match", "damaged", "grown",
                                         "truncated", "replaced",      "missing"};
  const char* path = nullptr;
  PyObject *dict = nullptr, *progress = nullptr;
  if (!PyArg_ParseTuple(arguments, "yO!O", &path, &PyDict_Type, &dict, &progress)) return nullptr;
  ht_verify_options options{};
  if (!fill_verify_options(dict, &options)) return nullptr;
  Result<ht_verification> found;
  Work work(progress);
  if (!work.run([&](const ht_work* state, ht_error** error) {
        options.work = state;
        return ht_verify(path, &options, found.out(), error);
      }))
    return nullptr;
  Ref damage(found->damage ? to_exception(ht_error_code(found->damage), found->damage) : nullptr);
  if (found->damage && !damage) return nullptr;
  Ref result(PyDict_New());
  const bool ok =
      result && PyDict_SetItemString(result.get(), "damage", damage ? damage.get() : Py_None) == 0 &&
      put(result.get(), "ok", PyBool_FromLong(found->ok)) &&
      put(result.get(), "verdict", text_of(verdicts[found->verdict])) &&
      put(result.get(), "checked_bytes", PyLong_FromUnsignedLongLong(found->checked_bytes)) &&
      put(result.get(), "algorithm", text_of(hash_names[found->algorithm])) &&
      put(result.get(), "seal", path_of(found->seal)) &&
      put(result.get(), "bad", list_of(found->bad_count, [&](size_t i) { return range_of(*found->bad[i]); }));
  return ok ? result.release() : nullptr;
}

// verify_model(model, options, progress)
static PyObject* verify_model(PyObject*, PyObject* arguments) {
  PyObject *model = nullptr, *dict = nullptr, *progress = nullptr;
  if (!PyArg_ParseTuple(arguments, "OO!O", &model, &PyDict_Type, &dict, &progress)) return nullptr;
  const Use use(handle_of(model));
  ht_verify_options options{};
  if (!use || !fill_verify_options(dict, &options)) return nullptr;
  Work work(progress);
  if (!work.run([&](const ht_work* state, ht_error** error) {
        options.work = state;
        return ht_model_verify(use.model(), &options, error);
      }))
    return nullptr;
  Py_RETURN_NONE;
}

// hash(model, options, progress)
static PyObject* hash(PyObject*, PyObject* arguments) {
  PyObject *model = nullptr, *dict = nullptr, *progress = nullptr;
  if (!PyArg_ParseTuple(arguments, "OO!O", &model, &PyDict_Type, &dict, &progress)) return nullptr;
  const Use use(handle_of(model));
  ht_hash_options options{};
  if (!use || !fill_hash_options(dict, &options)) return nullptr;
  Result<ht_hashes> found;
  Work work(progress);
  if (!work.run([&](const ht_work* state, ht_error** error) {
        options.work = state;
        return ht_model_hash(use.model(), &options, found.out(), error);
      }))
    return nullptr;
  Ref result(PyDict_New());
  const bool ok = result && put(result.get(), "algorithm", text_of(hash_names[found->digest.algorithm])) &&
                  put(result.get(), "digest", hex_of(found->digest)) &&
                  put(result.get(), "files",
                      list_of(found->file_count, [&](size_t i) { return path_of(found->files[i]); })) &&
                  put(result.get(), "file_digests",
                      list_of(found->file_count, [&](size_t i) { return hex_of(found->file_digests[i]); })) &&
                  put(result.get(), "tensor_digests",
                      list_of(found->tensor_count, [&](size_t i) { return hex_of(found->tensors[i]); }));
  return ok ? result.release() : nullptr;
}

PyMethodDef integrity_functions[] = {
    {"seal", seal, METH_VARARGS, nullptr},     {"read_seal", read_seal, METH_VARARGS, nullptr},
    {"verify", verify, METH_VARARGS, nullptr}, {"verify_model", verify_model, METH_VARARGS, nullptr},
    {"hash", hash, METH_VARARGS, nullptr},     {nullptr, nullptr, 0, nullptr}};

}  // namespace htpy
