// The type Tensor: properties, reads, statistics, DLPack; and the type Buffer: bytes that keep their tensor
// alive.
#include <cstring>

#include "dlpack.hpp"
#include "native.hpp"

namespace htpy {

PyTypeObject* tensor_type = nullptr;
static PyObject* tensor_class = nullptr;  // the subclass in Python
static PyTypeObject* buffer_type = nullptr;

void set_tensor_class(PyObject* python_class) {
  Py_INCREF(python_class);
  Py_XDECREF(tensor_class);
  tensor_class = python_class;
}

bool describe(const ht_model* model, size_t index, ht_tensor_info* info) {
  info->size = sizeof *info;
  ht_error* error = nullptr;
  const ht_status status = ht_model_describe(model, index, info, &error);
  if (status == HT_OK) return true;
  raise(status, error);
  return false;
}

static bool describe(TensorObject* self, ht_tensor_info* info) {
  return describe(self->handle->model, self->index, info);
}

PyObject* new_tensor(Handle* handle, const ht_tensor_info& info) {
  PyTypeObject* type = tensor_class ? reinterpret_cast<PyTypeObject*>(tensor_class) : tensor_type;
  PyObject* object = PyType_GenericAlloc(type, 0);
  if (!object) {
    unshare(handle);
    return nullptr;
  }
  auto* self = reinterpret_cast<TensorObject*>(object);
  self->handle = handle;
  self->index = info.index;
  self->type = info.type;
  self->bits = info.bits;
  self->rank = info.rank;
  self->dims = info.dims;
  self->bytes = info.byte_size;
  return object;
}

PyObject* new_tensor(Handle* handle, size_t index) {
  ht_tensor_info info{};
  if (describe(handle->model, index, &info)) return new_tensor(handle, info);
  unshare(handle);
  return nullptr;
}

ht_tensor* tensor_of(TensorObject* self) {
  if (self->tensor) return self->tensor;
  ht_tensor* tensor = nullptr;
  if (!unlocked(
          [&](ht_error** error) { return ht_model_at(self->handle->model, self->index, &tensor, error); }))
    return nullptr;
  // Another thread may have created `self->tensor` while the GIL was released.
  if (self->tensor)
    ht_tensor_free(tensor);
  else
    self->tensor = tensor;
  return self->tensor;
}

// A tensor may own private pages, and unmapping many pages takes long. For a small tensor the GIL is kept:
// taking it again could take longer, because another thread may have to be interrupted.
static void free_tensor(ht_tensor* tensor, uint64_t bytes) {
  if (!tensor || bytes < uint64_t{1} << 20) return ht_tensor_free(tensor);
  PyThreadState* const state = PyEval_SaveThread();
  ht_tensor_free(tensor);
  take_gil(state);
}

static void tensor_dealloc(PyObject* object) {
  auto* self = reinterpret_cast<TensorObject*>(object);
  if (self->weak_references) PyObject_ClearWeakRefs(object);
  free_tensor(self->tensor, self->bytes);
  unshare(self->handle);
  free_object(object);
}

static TensorObject* as_tensor(PyObject* object) { return reinterpret_cast<TensorObject*>(object); }

static PyObject* get_name(PyObject* self, void*) {
  ht_tensor_info info{};
  return describe(as_tensor(self), &info) ? text_of(info.name) : nullptr;
}

// One cached str per type, because listings request the same few names for every tensor.
static PyObject* type_texts[512];

static PyObject* get_type(PyObject* self, void*) {
  const auto type = static_cast<size_t>(as_tensor(self)->type);
  if (type < sizeof type_texts / sizeof *type_texts && type_texts[type]) {
    Py_INCREF(type_texts[type]);
    return type_texts[type];
  }
  ht_tensor_info info{};
  if (!describe(as_tensor(self), &info)) return nullptr;
  PyObject* text = text_of(info.type_name);
  // User-defined types, which the library has no name for, are not cached.
  if (text && type < sizeof type_texts / sizeof *type_texts && *ht_type_name(info.type)) {
    Py_INCREF(text);
    type_texts[type] = text;
  }
  return text;
}

static PyObject* tuple_of(const int64_t* items, size_t count, int64_t scale) {
  Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(count)));
  if (!tuple) return nullptr;
  for (size_t i = 0; i < count; ++i) {
    // An empty tensor may have a dimension whose stride in bytes exceeds 64 bits.
    int64_t scaled = 0;
    if (__builtin_mul_overflow(items[i], scale, &scaled)) {
      PyErr_SetString(PyExc_OverflowError, "the strides of the tensor exceed 64 bits");
      return nullptr;
    }
    PyObject* item = PyLong_FromLongLong(scaled);
    if (!item || PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), item) != 0) return nullptr;
  }
  return tuple.release();
}

static PyObject* get_shape(PyObject* object, void*) {
  const auto* self = as_tensor(object);
  if (self->type != HT_TYPE_UNKNOWN) return tuple_of(self->dims, self->rank, 1);
  const int64_t bytes = static_cast<int64_t>(self->bytes);
  return tuple_of(&bytes, 1, 1);
}

// Strides in bytes, as in numpy; None for elements that are not whole bytes.
static PyObject* get_strides(PyObject* self, void*) {
  ht_tensor_info info{};
  if (!describe(as_tensor(self), &info)) return nullptr;
  const int64_t one = 1;
  if (info.type == HT_TYPE_UNKNOWN) return tuple_of(&one, 1, 1);
  if (info.bits == 0 || info.bits % 8 != 0) Py_RETURN_NONE;
  const ht_tensor* tensor = tensor_of(as_tensor(self));
  Block<int64_t> strides(info.rank);
  if (!tensor || !strides.ok()) return nullptr;
  ht_error* error = nullptr;
  const ht_status status = ht_tensor_strides(tensor, strides.data(), info.rank, &error);
  if (status != HT_OK) return raise(status, error);
  return tuple_of(strides.data(), info.rank, info.bits / 8);
}

static PyObject* get_nbytes(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(as_tensor(self)->bytes);
}

// type number << 8 | bits: the key of the dtypes in htensor/_types.py.
static PyObject* get_type_and_bits(PyObject* self, void*) {
  return PyLong_FromUnsignedLong(static_cast<unsigned long>(as_tensor(self)->type) << 8 |
                                 as_tensor(self)->bits);
}

static PyObject* get_offset(PyObject* self, void*) {
  ht_tensor_info info{};
  if (!describe(as_tensor(self), &info)) return nullptr;
  if (info.is_splat) Py_RETURN_NONE;
  return PyLong_FromUnsignedLongLong(info.offset);
}

static PyObject* get_file(PyObject* self, void*) {
  ht_tensor_info info{};
  if (!describe(as_tensor(self), &info)) return nullptr;
  return path_of(info.file && *info.file ? info.file : nullptr);
}

static PyObject* get_note(PyObject* self, void*) {
  ht_tensor_info info{};
  return describe(as_tensor(self), &info) ? text_of(info.note) : nullptr;
}

static PyObject* get_index(PyObject* self, void*) { return PyLong_FromSize_t(as_tensor(self)->index); }

// (type, bits, block elements, block bytes, is plain, is column-major, is big-endian, splat pattern or None).
// Plain, as in `ht_tensor_info::is_plain`: not a splat, row-major, little-endian.
static PyObject* get_facts(PyObject* self, void*) {
  ht_tensor_info info{};
  if (!describe(as_tensor(self), &info)) return nullptr;
  return Py_BuildValue("(iIIIiiiy#)", static_cast<int>(info.type), info.bits, info.block_elements,
                       info.block_bytes, info.is_plain, info.is_column_major, info.is_big_endian,
                       static_cast<const char*>(info.splat), static_cast<Py_ssize_t>(info.splat_bytes));
}

// Bytes of a tensor.

struct BufferObject {
  PyObject_HEAD PyObject* tensor;
  void* data;
  size_t bytes;
  int is_read_only;
};

static PyObject* buffer_of(PyObject* self, bool is_private) {
  const ht_tensor* tensor = tensor_of(as_tensor(self));
  if (!tensor) return nullptr;
  const void* data = nullptr;
  void* writable = nullptr;
  size_t bytes = 0;
  if (!unlocked([&](ht_error** error) {
        return is_private ? ht_tensor_private_data(tensor, &writable, &bytes, error)
                          : ht_tensor_data(tensor, &data, &bytes, error);
      }))
    return nullptr;
  PyObject* object = PyType_GenericAlloc(buffer_type, 0);
  if (!object) return nullptr;
  auto* buffer = reinterpret_cast<BufferObject*>(object);
  Py_INCREF(self);
  buffer->tensor = self;
  buffer->data = is_private ? writable : const_cast<void*>(data);
  buffer->bytes = bytes;
  buffer->is_read_only = !is_private;
  return object;
}

static PyObject* tensor_buffer(PyObject* self, PyObject*) { return buffer_of(self, false); }
static PyObject* tensor_private_buffer(PyObject* self, PyObject*) { return buffer_of(self, true); }

static int buffer_get(PyObject* object, Py_buffer* view, int flags) {
  auto* self = reinterpret_cast<BufferObject*>(object);
  // numpy interprets a null pointer as a request to allocate.
  static char empty;
  return PyBuffer_FillInfo(view, object, self->data ? self->data : &empty,
                           static_cast<Py_ssize_t>(self->bytes), self->is_read_only, flags);
}

static PyObject* buffer_address(PyObject* object, void*) {
  return PyLong_FromVoidPtr(reinterpret_cast<BufferObject*>(object)->data);
}

static void buffer_dealloc(PyObject* object) {
  Py_XDECREF(reinterpret_cast<BufferObject*>(object)->tensor);
  free_object(object);
}

// Reading.

static bool slices_of(PyObject* list, Block<ht_slice>* slices) {
  const Py_ssize_t count = PyTuple_Size(list);
  if (count < 0 || !slices->allocate(static_cast<size_t>(count))) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    long long start = 0, stop = 0, step = 0;
    if (!PyArg_ParseTuple(PyTuple_GetItem(list, i), "LLL", &start, &stop, &step)) return false;
    (*slices)[static_cast<size_t>(i)] = {start, stop, step};
  }
  return true;
}

// _read(slices or None, options, out, progress)
static PyObject* tensor_read(PyObject* self, PyObject* arguments) {
  static const Field fields[] = {
      {"type", Kind::enumeration, offsetof(ht_read_options, type)},
      {"rounding", Kind::enumeration, offsetof(ht_read_options, rounding)},
      {"saturate", Kind::flag, offsetof(ht_read_options, saturate)},
      {"seed", Kind::u64, offsetof(ht_read_options, seed)},
      {"unpack", Kind::flag, offsetof(ht_read_options, unpack)},
  };
  PyObject *list = nullptr, *dict = nullptr, *target = nullptr, *progress = nullptr;
  if (!PyArg_ParseTuple(arguments, "OO!OO", &list, &PyDict_Type, &dict, &target, &progress)) return nullptr;
  ht_read_options options{};
  options.size = sizeof options;
  if (!fill(dict, fields, sizeof fields / sizeof *fields, &options)) return nullptr;
  Block<ht_slice> slices;
  size_t count = 0;
  if (list != Py_None) {
    if (!slices_of(list, &slices)) return nullptr;
    count = static_cast<size_t>(PyTuple_Size(list));
  }
  const ht_tensor* tensor = tensor_of(as_tensor(self));
  Py_buffer view;
  if (!tensor || PyObject_GetBuffer(target, &view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) != 0) return nullptr;
  Work work(progress);
  const bool ok = work.run([&](const ht_work* state, ht_error** error) {
    options.work = state;
    return ht_tensor_read(tensor, list == Py_None ? nullptr : slices.data(), count, &options, view.buf,
                          static_cast<size_t>(view.len), error);
  });
  PyBuffer_Release(&view);
  if (!ok) return nullptr;
  Py_RETURN_NONE;
}

// _copy_to(begin, out)
static PyObject* tensor_copy_to(PyObject* self, PyObject* arguments) {
  unsigned long long begin = 0;
  PyObject* target = nullptr;
  if (!PyArg_ParseTuple(arguments, "KO", &begin, &target)) return nullptr;
  const ht_tensor* tensor = tensor_of(as_tensor(self));
  Py_buffer view;
  if (!tensor || PyObject_GetBuffer(target, &view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) != 0) return nullptr;
  // Bytes copied between two checks for signals.
  constexpr size_t part_bytes = size_t{64} << 20;
  auto* const out = static_cast<char*>(view.buf);
  const size_t bytes = static_cast<size_t>(view.len);
  size_t done = 0;
  bool ok = true;
  do {
    const size_t count = bytes - done < part_bytes ? bytes - done : part_bytes;
    ok = unlocked([&](ht_error** error) {
           return ht_tensor_copy_to(tensor, begin + done, out + done, count, error);
         }) &&
         PyErr_CheckSignals() == 0;
    done += count;
  } while (ok && done < bytes);
  PyBuffer_Release(&view);
  if (!ok) return nullptr;
  Py_RETURN_NONE;
}

// _stats(progress)
static PyObject* tensor_stats(PyObject* self, PyObject* progress) {
  const ht_tensor* tensor = tensor_of(as_tensor(self));
  if (!tensor) return nullptr;
  ht_statistics found{};
  found.size = sizeof found;
  Work work(progress);
  if (!work.run([&](const ht_work* state, ht_error** error) {
        return ht_tensor_statistics(tensor, state, &found, error);
      }))
    return nullptr;
  return Py_BuildValue(
      "{s:K,s:K,s:K,s:K,s:K,s:d,s:d,s:K,s:K,s:d,s:d,s:d,s:d}", "count",
      static_cast<unsigned long long>(found.count), "zeros", static_cast<unsigned long long>(found.zeros),
      "subnormals", static_cast<unsigned long long>(found.subnormals), "nans",
      static_cast<unsigned long long>(found.nans), "infinities",
      static_cast<unsigned long long>(found.infinities), "min", found.min, "max", found.max, "argmin",
      static_cast<unsigned long long>(found.argmin), "argmax", static_cast<unsigned long long>(found.argmax),
      "sum", found.sum, "mean", found.mean, "std", found.standard_deviation, "norm", found.norm);
}

static PyObject* tensor_verify(PyObject* self, PyObject*) {
  const ht_tensor* tensor = tensor_of(as_tensor(self));
  if (!tensor) return nullptr;
  Work work(Py_None);
  if (!work.run([&](const ht_work* state, ht_error** error) {
        return ht_tensor_verify_with_work(tensor, state, error);
      }))
    return nullptr;
  Py_RETURN_NONE;
}

// A consumer that takes over the tensor renames the capsule. Only an unconsumed capsule deletes its tensor.
template <class Managed>
static void free_capsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, Managed::capsule_name)) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::capsule_name));
  if (managed->deleter) managed->deleter(managed);
}

template <class Managed>
static PyObject* to_capsule(Managed* managed) {
  PyObject* capsule = PyCapsule_New(managed, Managed::capsule_name, free_capsule<Managed>);
  if (!capsule && managed->deleter) managed->deleter(managed);
  return capsule;
}

// _dlpack(versioned, access)
static PyObject* tensor_dlpack(PyObject* self, PyObject* arguments) {
  int versioned = 0, access = 0;
  if (!PyArg_ParseTuple(arguments, "pi", &versioned, &access)) return nullptr;
  const ht_tensor* tensor = tensor_of(as_tensor(self));
  if (!tensor) return nullptr;
  DLManagedTensor* unversioned = nullptr;
  DLManagedTensorVersioned* managed = nullptr;
  Work work(Py_None);
  if (!work.run([&](const ht_work* state, ht_error** error) {
        const auto mode = static_cast<ht_access>(access);
        if (mode == HT_ACCESS_COPY)
          return versioned ? ht_tensor_copy_to_dlpack_versioned(tensor, state, &managed, error)
                           : ht_tensor_copy_to_dlpack(tensor, state, &unversioned, error);
        return versioned ? ht_tensor_to_dlpack_versioned(tensor, mode, &managed, error)
                         : ht_tensor_to_dlpack(tensor, mode, &unversioned, error);
      })) {
    // A signal handler may have raised an exception although the export succeeded.
    if (unversioned) unversioned->deleter(unversioned);
    if (managed) managed->deleter(managed);
    return nullptr;
  }
  return versioned ? to_capsule(managed) : to_capsule(unversioned);
}

static PyMethodDef tensor_methods[] = {
    {"_buffer", tensor_buffer, METH_NOARGS, nullptr},
    {"_private_buffer", tensor_private_buffer, METH_NOARGS, nullptr},
    {"_read", tensor_read, METH_VARARGS, nullptr},
    {"_copy_to", tensor_copy_to, METH_VARARGS, nullptr},
    {"_stats", tensor_stats, METH_O, nullptr},
    {"_dlpack", tensor_dlpack, METH_VARARGS, nullptr},
    {"verify", tensor_verify, METH_NOARGS,
     "Compares the bytes of the tensor with the seal of its file; raises Error if they differ."},
    {nullptr, nullptr, 0, nullptr}};

static PyGetSetDef tensor_properties[] = {
    {"name", get_name, nullptr, "The name of the tensor.", nullptr},
    {"type", get_type, nullptr,
     "The stored type, as in safetensors and ggml: \"BF16\", \"Q4_K\"; \"\" if the file does not state it.",
     nullptr},
    {"shape", get_shape, nullptr, "The dimensions, outermost first.", nullptr},
    {"strides", get_strides, nullptr,
     "Bytes between neighbours in each dimension; None for blocks and elements of 4 or 6 bits.", nullptr},
    {"nbytes", get_nbytes, nullptr, "The size of all elements as stored; a splat counts as if expanded.",
     nullptr},
    {"offset", get_offset, nullptr, "The offset of the bytes in their file; None for a splat.", nullptr},
    {"file", get_file, nullptr,
     "The path of the file with the bytes; None for a splat and for bytes in memory.", nullptr},
    {"note", get_note, nullptr,
     "The text that an IRPA file stores with the tensor; empty if it only states the type and the shape as "
     "the library writes them, and for other formats.",
     nullptr},
    {"index", get_index, nullptr, "The position of the tensor in its model.", nullptr},
    {"_type_and_bits", get_type_and_bits, nullptr, nullptr, nullptr},
    {"_facts", get_facts, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

static PyMemberDef tensor_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

static PyGetSetDef buffer_properties[] = {
    {"address", buffer_address, nullptr, "The address of the first byte.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

bool add_tensor_types(PyObject* module) {
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(tensor_dealloc)},
                                {Py_tp_methods, tensor_methods},
                                {Py_tp_getset, tensor_properties},
                                {Py_tp_members, tensor_members},
                                {0, nullptr}};
  static PyType_Spec spec = {"htensor._native.Tensor", sizeof(TensorObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             slots};
  static PyType_Slot buffer_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(buffer_dealloc)},
                                       {Py_tp_getset, buffer_properties},
                                       {Py_bf_getbuffer, reinterpret_cast<void*>(buffer_get)},
                                       {0, nullptr}};
  static PyType_Spec buffer_spec = {"htensor._native.Buffer", sizeof(BufferObject), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, buffer_slots};
  if (!tensor_type) tensor_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!buffer_type) buffer_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&buffer_spec));
  return tensor_type && buffer_type &&
         PyModule_AddObjectRef(module, "Tensor", reinterpret_cast<PyObject*>(tensor_type)) == 0 &&
         PyModule_AddObjectRef(module, "Buffer", reinterpret_cast<PyObject*>(buffer_type)) == 0;
}

}  // namespace htpy
