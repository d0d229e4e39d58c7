// The module itself, exceptions, long calls and options.
#include <unistd.h>

#include <cstring>

#include "native.hpp"

namespace htpy {

void free_object(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

PyObject* text_of(ht_string text) {
  return PyUnicode_DecodeUTF8(text.data, static_cast<Py_ssize_t>(text.size), "surrogateescape");
}

PyObject* text_of(const char* text) { return text_of(ht_string{text ? text : "", text ? strlen(text) : 0}); }

PyObject* path_of(const char* path) {
  if (!path) Py_RETURN_NONE;
  return PyUnicode_DecodeFSDefault(path);
}

PyObject* hex_of(const ht_digest& digest) {
  char text[65];
  ht_digest_hex(&digest, text);
  return text_of(text);
}

bool put(PyObject* dict, const char* key, PyObject* value) {
  Ref owned(value);
  return owned && PyDict_SetItemString(dict, key, value) == 0;
}

// The exception classes are defined in Python; htensor/_errors.py chooses one by the code.
PyObject* to_exception(ht_status status, const ht_error* error) {
  Ref errors(without_unwinding([] { return PyImport_ImportModule("htensor._errors"); }));
  if (!errors) return nullptr;
  Ref make(PyObject_GetAttrString(errors.get(), "from_native"));
  if (!make) return nullptr;
  // Paths and names in a message need not be UTF-8.
  Ref message(text_of(ht_error_message(error)));
  Ref hint(text_of(ht_error_hint(error)));
  Ref path(PyUnicode_DecodeFSDefault(ht_error_path(error)));
  Ref tensor(text_of(ht_error_tensor(error)));
  if (!message || !hint || !path || !tensor) return nullptr;
  return without_unwinding([&] {
    return PyObject_CallFunction(make.get(), "ssOOOOLi", ht_status_name(status), ht_error_rule(error),
                                 message.get(), hint.get(), path.get(), tensor.get(),
                                 static_cast<long long>(ht_error_offset(error)), ht_error_errno(error));
  });
}

PyObject* raise(ht_status status, ht_error* error) {
  Ref exception(to_exception(status, error));
  ht_error_free(error);
  if (exception) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
  return nullptr;
}

Work::Work(PyObject* callback) : callback_(callback == Py_None ? nullptr : callback) {
  work_.size = sizeof work_;
  work_.context = this;
  // Python runs signal handlers on the main thread only, so other threads report progress only to a callback.
  if (callback_ || gettid() == getpid()) work_.progress = report;
}

// Py_IsFinalizing is public since Python 3.13.
extern "C" {
__attribute__((weak)) int _Py_IsFinalizing(void);
__attribute__((weak)) int Py_IsFinalizing(void);
}

bool is_finalizing() {
  if (Py_IsFinalizing) return Py_IsFinalizing() != 0;
  return _Py_IsFinalizing && _Py_IsFinalizing() != 0;
}

void wait_for_exit() {
  while (true) pause();
}

int Work::report(void* context, const ht_progress* progress) {
  // Cancels the call, so that it removes its temporary files.
  if (is_finalizing()) return 1;
  Work& self = *static_cast<Work*>(context);
  const bool is_last = progress->done_bytes >= progress->total_bytes;
  const double interval = self.callback_ ? 0.02 : 0.1;
  if (!is_last && self.last_ >= 0 && progress->seconds - self.last_ < interval) return 0;
  self.last_ = progress->seconds;
  take_gil(self.state_);
  const bool stop = without_unwinding([&] {
    if (PyErr_Occurred() || PyErr_CheckSignals() != 0) return true;
    if (!self.callback_) return false;
    PyObject* const answer =
        PyObject_CallFunction(self.callback_, "KKd", static_cast<unsigned long long>(progress->done_bytes),
                              static_cast<unsigned long long>(progress->total_bytes), progress->seconds);
    Py_XDECREF(answer);
    return answer == nullptr;
  });
  self.state_ = PyEval_SaveThread();
  return stop ? 1 : 0;
}

bool Work::finish(ht_status status, ht_error* error) {
  if (PyErr_Occurred()) {
    ht_error_free(error);
    return false;
  }
  if (status == HT_OK) return true;
  raise(status, error);
  return false;
}

static bool set_field(const Field& field, PyObject* value, char* at) {
  switch (field.kind) {
    case Kind::flag: {
      const int flag = PyObject_IsTrue(value);
      if (flag < 0) return false;
      memcpy(at, &flag, sizeof flag);
      return true;
    }
    case Kind::f64: {
      const double number = PyFloat_AsDouble(value);
      if (number == -1 && PyErr_Occurred()) return false;
      memcpy(at, &number, sizeof number);
      return true;
    }
    case Kind::u64:
    case Kind::u32:
    case Kind::enumeration: {
      // Accepts integers of numpy, too.
      const Ref integer(PyNumber_Index(value));
      if (!integer) return false;
      const unsigned long long number = PyLong_AsUnsignedLongLong(integer.get());
      if (number == static_cast<unsigned long long>(-1) && PyErr_Occurred()) return false;
      if (field.kind == Kind::u64) {
        const uint64_t wide = number;
        memcpy(at, &wide, sizeof wide);
        return true;
      }
      const uint32_t narrow = static_cast<uint32_t>(number);
      if (narrow != number) {
        PyErr_Format(PyExc_OverflowError, "%s: %llu exceeds 2^32-1", field.key, number);
        return false;
      }
      memcpy(at, &narrow, sizeof narrow);
      return true;
    }
    case Kind::text: {
      Py_ssize_t size = 0;
      const char* text = PyUnicode_AsUTF8AndSize(value, &size);
      if (!text) return false;
      if (strlen(text) != static_cast<size_t>(size)) {
        PyErr_Format(PyExc_ValueError, "%s contains a NUL", field.key);
        return false;
      }
      memcpy(at, &text, sizeof text);
      return true;
    }
    case Kind::path: {
      char* path = nullptr;
      // ValueError for a NUL in the path.
      if (PyBytes_AsStringAndSize(value, &path, nullptr) != 0) return false;
      memcpy(at, &path, sizeof path);
      return true;
    }
  }
  return false;
}

bool fill(PyObject* dict, const Field* fields, size_t count, void* options) {
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &key, &value)) {
    size_t i = 0;
    while (i < count && PyUnicode_CompareWithASCIIString(key, fields[i].key) != 0) ++i;
    if (i == count) {
      PyErr_Format(PyExc_TypeError, "unknown option %R", key);
      return false;
    }
    if (!set_field(fields[i], value, static_cast<char*>(options) + fields[i].offset)) return false;
  }
  return true;
}

bool texts_of(PyObject* list, Block<const char*>* out, size_t* count) {
  const Py_ssize_t size = PyList_Size(list);
  if (size < 0 || !out->allocate(static_cast<size_t>(size))) return false;
  for (Py_ssize_t i = 0; i < size; ++i) {
    Py_ssize_t bytes = 0;
    const char* text = PyUnicode_AsUTF8AndSize(PyList_GetItem(list, i), &bytes);
    if (!text) return false;
    if (strlen(text) != static_cast<size_t>(bytes)) {
      PyErr_SetString(PyExc_ValueError, "pattern contains a NUL");
      return false;
    }
    (*out)[static_cast<size_t>(i)] = text;
  }
  *count = static_cast<size_t>(size);
  return true;
}

bool Filter::set(PyObject* include, PyObject* exclude) {
  filter_.size = sizeof filter_;
  if (!texts_of(include, &include_, &filter_.include_count)) return false;
  if (!texts_of(exclude, &exclude_, &filter_.exclude_count)) return false;
  filter_.include = include_.data();
  filter_.exclude = exclude_.data();
  is_set_ = filter_.include_count || filter_.exclude_count;
  return true;
}

static PyObject* version(PyObject*, PyObject*) { return text_of(ht_version()); }

static PyObject* cpu_features(PyObject*, PyObject*) { return text_of(ht_cpu_features()); }

static PyObject* type_from_name(PyObject*, PyObject* name) {
  const char* text = PyUnicode_AsUTF8AndSize(name, nullptr);
  return text ? PyLong_FromLong(ht_type_from_name(text)) : nullptr;
}

static PyObject* crc64nvme_combine(PyObject*, PyObject* arguments) {
  PyObject* given[3] = {};
  uint64_t numbers[3] = {};
  if (!PyArg_ParseTuple(arguments, "OOO", &given[0], &given[1], &given[2])) return nullptr;
  for (int i = 0; i < 3; ++i) {
    const Ref integer(PyNumber_Index(given[i]));
    if (!integer) return nullptr;
    numbers[i] = PyLong_AsUnsignedLongLong(integer.get());
    if (PyErr_Occurred()) return nullptr;
  }
  return PyLong_FromUnsignedLongLong(ht_crc64nvme_combine(numbers[0], numbers[1], numbers[2]));
}

static PyObject* crc64nvme(PyObject*, PyObject* arguments) {
  struct Sum {
    Py_buffer view;
    uint64_t sum;
  } state{};
  PyObject* before = nullptr;
  if (!PyArg_ParseTuple(arguments, "y*O", &state.view, &before)) return nullptr;
  const Ref integer(PyNumber_Index(before));
  bool ok = static_cast<bool>(integer);
  if (ok) {
    state.sum = PyLong_AsUnsignedLongLong(integer.get());
    ok = !PyErr_Occurred();
  }
  // The bytes may be those of a mapped file that was truncated.
  ok = ok && unlocked([&](ht_error** error) {
         const auto body = [](void* context) {
           auto* self = static_cast<Sum*>(context);
           self->sum = ht_crc64nvme(self->view.buf, static_cast<size_t>(self->view.len), self->sum);
         };
         return ht_guard(state.view.buf, static_cast<size_t>(state.view.len), body, &state, error);
       });
  PyBuffer_Release(&state.view);
  return ok ? PyLong_FromUnsignedLongLong(state.sum) : nullptr;
}

static PyObject* register_tensor(PyObject*, PyObject* python_class) {
  if (!PyType_Check(python_class) ||
      !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(python_class), tensor_type)) {
    PyErr_SetString(PyExc_TypeError, "register_tensor needs a subclass of _native.Tensor");
    return nullptr;
  }
  set_tensor_class(python_class);
  Py_RETURN_NONE;
}

static PyMethodDef module_functions[] = {{"version", version, METH_NOARGS, nullptr},
                                         {"cpu_features", cpu_features, METH_NOARGS, nullptr},
                                         {"type_from_name", type_from_name, METH_O, nullptr},
                                         {"crc64nvme", crc64nvme, METH_VARARGS, nullptr},
                                         {"crc64nvme_combine", crc64nvme_combine, METH_VARARGS, nullptr},
                                         {"register_tensor", register_tensor, METH_O, nullptr},
                                         {nullptr, nullptr, 0, nullptr}};

static int execute(PyObject* module) {
  // The types and the registered tensor class are process-wide, because all interpreters share one C library.
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    PyErr_SetString(PyExc_ImportError,
                    "htensor cannot be imported in a subinterpreter; use threads or processes instead");
    return -1;
  }
  const bool ok = add_model_type(module) && add_tensor_types(module) &&
                  PyModule_AddFunctions(module, module_functions) == 0 &&
                  PyModule_AddFunctions(module, model_functions) == 0 &&
                  PyModule_AddFunctions(module, load_functions) == 0 &&
                  PyModule_AddFunctions(module, integrity_functions) == 0 &&
                  PyModule_AddFunctions(module, convert_functions) == 0;
  return ok ? 0 : -1;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(execute)}, {0, nullptr}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                 "htensor._native",
                                 "Calls of htensor.h; use the package htensor instead.",
                                 0,
                                 nullptr,
                                 slots,
                                 nullptr,
                                 nullptr,
                                 nullptr};

}  // namespace htpy

PyMODINIT_FUNC PyInit__native() { return PyModuleDef_Init(&htpy::definition); }
