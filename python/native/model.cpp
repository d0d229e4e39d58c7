// The type Model: opening, listing, looking up.
#include <cstdlib>
#include <cstring>

#include "native.hpp"

namespace htpy {

PyTypeObject* model_type = nullptr;

Handle* share(Handle* handle) {
  ++handle->owners;
  return handle;
}

void unshare(Handle* handle) {
  if (!handle || --handle->owners > 0) return;
  // Unmapping the memory of a loaded model takes long.
  PyThreadState* const state = PyEval_SaveThread();
  ht_model_free(handle->model);
  take_gil(state);
  PyMem_Free(handle);
}

Handle* handle_of(PyObject* object) {
  if (!PyObject_TypeCheck(object, model_type)) {
    PyErr_SetString(PyExc_TypeError, "expected a htensor.Model");
    return nullptr;
  }
  Handle* handle = reinterpret_cast<ModelObject*>(object)->handle;
  if (!handle) {
    PyErr_SetString(PyExc_ValueError, "the model is closed");
    return nullptr;
  }
  return share(handle);
}

// Wraps a new model in an object of the Python class.
static PyObject* wrap(PyObject* python_class, ht_model* model) {
  Handle* handle = static_cast<Handle*>(PyMem_Malloc(sizeof(Handle)));
  PyObject* object =
      handle ? PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(python_class), 0) : PyErr_NoMemory();
  if (!object) {
    PyMem_Free(handle);
    ht_model_free(model);
    return nullptr;
  }
  *handle = {model, 1};
  reinterpret_cast<ModelObject*>(object)->handle = handle;
  return object;
}

static bool is_model_class(PyObject* object) {
  if (PyType_Check(object) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(object), model_type))
    return true;
  PyErr_SetString(PyExc_TypeError, "a subclass of _native.Model is needed");
  return false;
}

static bool fill_open_options(PyObject* dict, ht_open_options* options) {
  static const Field fields[] = {
      {"faults", Kind::enumeration, offsetof(ht_open_options, faults)},
      {"allow_incomplete", Kind::flag, offsetof(ht_open_options, allow_incomplete)},
      {"catalog_only", Kind::flag, offsetof(ht_open_options, catalog_only)},
      {"max_header", Kind::u64, offsetof(ht_open_options, max_header_bytes)},
  };
  options->size = sizeof *options;
  return fill(dict, fields, sizeof fields / sizeof *fields, options);
}

static PyObject* open_path(PyObject*, PyObject* arguments) {
  PyObject *python_class = nullptr, *dict = nullptr;
  const char* path = nullptr;
  ht_open_options options{};
  if (!PyArg_ParseTuple(arguments, "OyO!", &python_class, &path, &PyDict_Type, &dict)) return nullptr;
  if (!is_model_class(python_class) || !fill_open_options(dict, &options)) return nullptr;
  ht_model* model = nullptr;
  if (!unlocked([&](ht_error** error) { return ht_model_open(path, &options, &model, error); }))
    return nullptr;
  return wrap(python_class, model);
}

static PyObject* open_merged(PyObject*, PyObject* arguments) {
  PyObject *python_class = nullptr, *list = nullptr, *dict = nullptr;
  ht_open_options options{};
  if (!PyArg_ParseTuple(arguments, "OO!O!", &python_class, &PyList_Type, &list, &PyDict_Type, &dict))
    return nullptr;
  if (!is_model_class(python_class) || !fill_open_options(dict, &options)) return nullptr;
  const size_t count = static_cast<size_t>(PyList_Size(list));
  Block<const char*> paths(count);
  if (!paths.ok()) return nullptr;
  for (size_t i = 0; i < count; ++i) {
    char* path = nullptr;
    // ValueError for a NUL in the path.
    if (PyBytes_AsStringAndSize(PyList_GetItem(list, static_cast<Py_ssize_t>(i)), &path, nullptr) != 0)
      return nullptr;
    paths[i] = path;
  }
  ht_model* model = nullptr;
  if (!unlocked([&](ht_error** error) {
        return ht_model_open_merged(paths.data(), count, &options, &model, error);
      }))
    return nullptr;
  return wrap(python_class, model);
}

// Runs on the thread that frees the last object that uses the bytes. That thread may or may not hold the GIL.
static void release_buffer(void* context) {
  if (!Py_IsInitialized()) return;
  without_unwinding([&] {
    const PyGILState_STATE state = PyGILState_Ensure();
    PyBuffer_Release(static_cast<Py_buffer*>(context));
    free(context);
    PyGILState_Release(state);
  });
}

static PyObject* open_bytes(PyObject*, PyObject* arguments) {
  PyObject *python_class = nullptr, *data = nullptr, *dict = nullptr;
  ht_open_options options{};
  if (!PyArg_ParseTuple(arguments, "OOO!", &python_class, &data, &PyDict_Type, &dict)) return nullptr;
  if (!is_model_class(python_class) || !fill_open_options(dict, &options)) return nullptr;
  Py_buffer* view = static_cast<Py_buffer*>(malloc(sizeof(Py_buffer)));
  if (!view) return PyErr_NoMemory();
  if (PyObject_GetBuffer(data, view, PyBUF_SIMPLE) != 0) {
    free(view);
    return nullptr;
  }
  ht_model* model = nullptr;
  if (!unlocked([&](ht_error** error) {
        return ht_model_open_bytes(view->buf, static_cast<size_t>(view->len), release_buffer, view, &options,
                                   &model, error);
      }))
    return nullptr;
  return wrap(python_class, model);
}

static PyObject* open_fd(PyObject*, PyObject* arguments) {
  PyObject *python_class = nullptr, *dict = nullptr;
  int fd = -1;
  ht_open_options options{};
  if (!PyArg_ParseTuple(arguments, "OiO!", &python_class, &fd, &PyDict_Type, &dict)) return nullptr;
  if (!is_model_class(python_class) || !fill_open_options(dict, &options)) return nullptr;
  ht_model* model = nullptr;
  if (!unlocked([&](ht_error** error) { return ht_model_open_fd(fd, &options, &model, error); }))
    return nullptr;
  return wrap(python_class, model);
}

static PyObject* validate(PyObject*, PyObject* arguments) {
  PyObject* dict = nullptr;
  const char* path = nullptr;
  ht_open_options options{};
  if (!PyArg_ParseTuple(arguments, "yO!", &path, &PyDict_Type, &dict)) return nullptr;
  if (!fill_open_options(dict, &options)) return nullptr;
  Result<ht_diagnosis> diagnosis;
  if (!unlocked([&](ht_error** error) { return ht_validate(path, &options, diagnosis.out(), error); }))
    return nullptr;
  const auto exception = [](const ht_error* error) { return to_exception(ht_error_code(error), error); };
  Ref found(PyDict_New());
  const bool ok =
      found && put(found.get(), "format", text_of(diagnosis->format)) &&
      put(found.get(), "readable", PyBool_FromLong(diagnosis->readable)) &&
      put(found.get(), "problems",
          list_of(diagnosis->problem_count, [&](size_t i) { return exception(diagnosis->problems[i]); })) &&
      put(found.get(), "warnings",
          list_of(diagnosis->warning_count, [&](size_t i) { return exception(diagnosis->warnings[i]); })) &&
      put(found.get(), "missing_files", list_of(diagnosis->missing_file_count, [&](size_t i) {
            return path_of(diagnosis->missing_files[i]);
          }));
  return ok ? found.release() : nullptr;
}

static PyObject* typed_metadata(PyObject*, PyObject* model);

PyMethodDef model_functions[] = {{"open_path", open_path, METH_VARARGS, nullptr},
                                 {"open_merged", open_merged, METH_VARARGS, nullptr},
                                 {"open_bytes", open_bytes, METH_VARARGS, nullptr},
                                 {"open_fd", open_fd, METH_VARARGS, nullptr},
                                 {"validate", validate, METH_VARARGS, nullptr},
                                 {"typed_metadata", typed_metadata, METH_O, nullptr},
                                 {nullptr, nullptr, 0, nullptr}};

// Iterators over names, tensors, or pairs of both.

enum class Yield { names, tensors, pairs };

struct IteratorObject {
  PyObject_HEAD Handle* handle;
  size_t next;
  size_t count;
  Yield yield;
};

static PyTypeObject* iterator_type = nullptr;

static PyObject* iterator_next(PyObject* object) {
  auto* self = reinterpret_cast<IteratorObject*>(object);
  if (self->next >= self->count) return nullptr;
  const size_t index = self->next++;
  ht_tensor_info info{};
  if (!describe(self->handle->model, index, &info)) return nullptr;
  if (self->yield == Yield::tensors) return new_tensor(share(self->handle), info);
  Ref name(text_of(info.name));
  if (!name || self->yield == Yield::names) return name.release();
  Ref tensor(new_tensor(share(self->handle), info));
  return tensor ? PyTuple_Pack(2, name.get(), tensor.get()) : nullptr;
}

static void iterator_dealloc(PyObject* object) {
  unshare(reinterpret_cast<IteratorObject*>(object)->handle);
  free_object(object);
}

static PyObject* iterate(PyObject* model, Yield yield) {
  Handle* handle = handle_of(model);
  if (!handle) return nullptr;
  PyObject* object = PyType_GenericAlloc(iterator_type, 0);
  if (!object) {
    unshare(handle);
    return nullptr;
  }
  auto* self = reinterpret_cast<IteratorObject*>(object);
  self->handle = handle;
  self->count = ht_model_count(handle->model);
  self->yield = yield;
  return object;
}

static PyObject* model_iter(PyObject* self) { return iterate(self, Yield::names); }
static PyObject* model_tensors(PyObject* self, PyObject*) { return iterate(self, Yield::tensors); }
static PyObject* model_pairs(PyObject* self, PyObject*) { return iterate(self, Yield::pairs); }

static Py_ssize_t model_length(PyObject* self) {
  const Use use(handle_of(self));
  return use ? static_cast<Py_ssize_t>(ht_model_count(use.model())) : -1;
}

// Returns 1 and writes the index; 0 if the model has no tensor of that name; -1 with an exception if memory
// runs out.
static int find(const ht_model* model, PyObject* name, size_t* index) {
  if (!PyUnicode_Check(name)) return 0;
  Py_ssize_t size = 0;
  if (const char* text = PyUnicode_AsUTF8AndSize(name, &size))
    return ht_model_find(model, text, static_cast<size_t>(size), index);
  // A name that is not UTF-8 was decoded with surrogate escapes, which are encoded back here.
  PyErr_Clear();
  Ref bytes(PyUnicode_AsEncodedString(name, "utf-8", "surrogateescape"));
  if (!bytes) {
    if (!PyErr_ExceptionMatches(PyExc_UnicodeError)) return -1;
    PyErr_Clear();
    return 0;
  }
  return ht_model_find(model, PyBytes_AsString(bytes.get()), static_cast<size_t>(PyBytes_Size(bytes.get())),
                       index);
}

static int model_contains(PyObject* self, PyObject* name) {
  const Use use(handle_of(self));
  size_t index = 0;
  return use ? find(use.model(), name, &index) : -1;
}

bool find_tensor(const ht_model* model, PyObject* name, size_t* index) {
  const int found = find(model, name, index);
  if (found != 0) return found == 1;
  // The error of ht_model_get suggests the most similar name.
  Ref text(PyUnicode_AsEncodedString(name, "utf-8", "replace"));
  if (!text) return false;
  ht_tensor* tensor = nullptr;
  ht_error* error = nullptr;
  const char* data = PyBytes_AsString(text.get());
  const size_t size = static_cast<size_t>(PyBytes_Size(text.get()));
  const ht_status status = ht_model_get(model, data, size, &tensor, &error);
  ht_tensor_free(tensor);
  raise(status == HT_OK ? HT_NOT_FOUND : status, error);
  return false;
}

static PyObject* model_subscript(PyObject* self, PyObject* name) {
  Handle* handle = handle_of(self);
  if (!handle) return nullptr;
  size_t index = 0;
  if (PyUnicode_Check(name) && find_tensor(handle->model, name, &index)) return new_tensor(handle, index);
  unshare(handle);
  if (!PyUnicode_Check(name))
    PyErr_Format(PyExc_TypeError, "names of tensors are str, not %R", Py_TYPE(name));
  return nullptr;
}

static PyObject* model_close(PyObject* self, PyObject*) {
  auto* model = reinterpret_cast<ModelObject*>(self);
  Handle* handle = model->handle;
  model->handle = nullptr;
  Py_CLEAR(model->metadata);
  unshare(handle);
  Py_RETURN_NONE;
}

// Raises the Error of the first unreadable page that was replaced by zeros.
static PyObject* model_check_faults(PyObject* self, PyObject*) {
  const Use use(handle_of(self));
  if (!use) return nullptr;
  ht_error* error = nullptr;
  const ht_status status = ht_model_fault(use.model(), &error);
  if (status != HT_OK) return raise(status, error);
  Py_RETURN_NONE;
}

static PyObject* get_closed(PyObject* self, void*) {
  return PyBool_FromLong(!reinterpret_cast<ModelObject*>(self)->handle);
}

static PyObject* get_format(PyObject* self, void*) {
  const Use use(handle_of(self));
  return use ? text_of(ht_model_format(use.model())) : nullptr;
}

static PyObject* get_files(PyObject* self, void*) {
  const Use use(handle_of(self));
  if (!use) return nullptr;
  Ref list(PyList_New(0));
  if (!list) return nullptr;
  for (size_t i = 0, count = ht_model_file_count(use.model()); i < count; ++i) {
    const char* path = ht_model_file(use.model(), i);
    if (!*path) continue;  // bytes in memory have no path
    const Ref item(path_of(path));
    if (!item || PyList_Append(list.get(), item.get()) != 0) return nullptr;
  }
  return list.release();
}

static PyObject* read_metadata(const ht_model* model, PyObject* (*convert)(const ht_value&)) {
  Ref dict(PyDict_New());
  if (!dict) return nullptr;
  for (size_t i = 0, count = ht_model_metadata_count(model); i < count; ++i) {
    const ht_metadata_item* item = nullptr;
    ht_error* error = nullptr;
    const ht_status status = ht_model_metadata_at(model, i, &item, &error);
    if (status != HT_OK) return raise(status, error);
    Ref key(text_of(item->key));
    Ref value(convert(item->value));
    if (!key || !value || PyDict_SetItem(dict.get(), key.get(), value.get()) != 0) return nullptr;
  }
  return dict.release();
}

// A copy of a list with its nested lists. Other values cannot be changed, so they are shared.
static PyObject* copy_of(PyObject* value) {
  if (!PyList_Check(value)) {
    Py_INCREF(value);
    return value;
  }
  return list_of(static_cast<size_t>(PyList_Size(value)),
                 [&](size_t i) { return copy_of(PyList_GetItem(value, static_cast<Py_ssize_t>(i))); });
}

// Returns a copy, so a change by the caller does not change the model. Also, the caller cannot store the
// model in the cached dict: the type has no garbage collection, so this cycle would never be freed.
static PyObject* get_metadata(PyObject* self, void*) {
  auto* model = reinterpret_cast<ModelObject*>(self);
  const Use use(handle_of(self));
  if (!use) return nullptr;
  // Another thread may close the model, or read the metadata too, while this one allocates.
  const Ref cached(model->metadata ? Py_NewRef(model->metadata) : read_metadata(use.model(), to_python));
  if (!cached) return nullptr;
  if (model->handle && !model->metadata) model->metadata = Py_NewRef(cached.get());
  Ref copy(PyDict_New());
  if (!copy) return nullptr;
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(cached.get(), &position, &key, &value)) {
    const Ref copied(copy_of(value));
    if (!copied || PyDict_SetItem(copy.get(), key, copied.get()) != 0) return nullptr;
  }
  return copy.release();
}

static PyObject* typed_metadata(PyObject*, PyObject* model) {
  const Use use(handle_of(model));
  return use ? read_metadata(use.model(), to_typed) : nullptr;
}

static void model_dealloc(PyObject* object) {
  auto* self = reinterpret_cast<ModelObject*>(object);
  if (self->weak_references) PyObject_ClearWeakRefs(object);
  unshare(self->handle);
  Py_XDECREF(self->metadata);
  free_object(object);
}

static PyMethodDef model_methods[] = {
    {"_tensors", model_tensors, METH_NOARGS, nullptr},
    {"_pairs", model_pairs, METH_NOARGS, nullptr},
    {"close", model_close, METH_NOARGS,
     "Releases the model. Tensors and arrays made from it stay valid and keep their file mapped."},
    {"check_faults", model_check_faults, METH_NOARGS,
     "Raises the Error of the first unreadable page that was replaced by zeros, even if a later call of the "
     "library has replaced the zeros by the page of the file. Returns None if no page was replaced."},
    {nullptr, nullptr, 0, nullptr}};

static PyGetSetDef model_properties[] = {
    {"closed", get_closed, nullptr, "Whether close() was called.", nullptr},
    {"format", get_format, nullptr, "\"safetensors\", \"gguf\", \"irpa\", \"ht\" or \"npy\".", nullptr},
    {"files", get_files, nullptr, "The paths of the files that contain tensors; empty for bytes in memory.",
     nullptr},
    {"metadata", get_metadata, nullptr, "A new dict of the metadata of the file with Python types.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

// PyType_FromSpec reads the offset of the weak references from a member of this name.
static PyMemberDef model_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ModelObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

bool add_model_type(PyObject* module) {
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(model_dealloc)},
                                {Py_tp_iter, reinterpret_cast<void*>(model_iter)},
                                {Py_mp_length, reinterpret_cast<void*>(model_length)},
                                {Py_mp_subscript, reinterpret_cast<void*>(model_subscript)},
                                {Py_sq_contains, reinterpret_cast<void*>(model_contains)},
                                {Py_tp_methods, model_methods},
                                {Py_tp_getset, model_properties},
                                {Py_tp_members, model_members},
                                {0, nullptr}};
  static PyType_Spec spec = {"htensor._native.Model", sizeof(ModelObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             slots};
  static PyType_Slot iterator_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(iterator_dealloc)},
                                         {Py_tp_iter, reinterpret_cast<void*>(PyObject_SelfIter)},
                                         {Py_tp_iternext, reinterpret_cast<void*>(iterator_next)},
                                         {0, nullptr}};
  static PyType_Spec iterator_spec = {"htensor._native.Iterator", sizeof(IteratorObject), 0,
                                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, iterator_slots};
  if (!model_type) model_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!iterator_type) iterator_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&iterator_spec));
  return model_type && iterator_type &&
         PyModule_AddObjectRef(module, "Model", reinterpret_cast<PyObject*>(model_type)) == 0;
}

}  // namespace htpy
