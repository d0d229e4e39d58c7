// Converts metadata to and from Python.
#include <cstring>

#include "native.hpp"

namespace htpy {

// Converts item `i` of an array. `type` determines the C type of the items, as in ht_value.
static PyObject* item_of(ht_value_type type, const void* items, uint64_t i) {
  switch (type) {
    case HT_VALUE_U8: return PyLong_FromUnsignedLong(static_cast<const uint8_t*>(items)[i]);
    case HT_VALUE_I8: return PyLong_FromLong(static_cast<const int8_t*>(items)[i]);
    case HT_VALUE_U16: return PyLong_FromUnsignedLong(static_cast<const uint16_t*>(items)[i]);
    case HT_VALUE_I16: return PyLong_FromLong(static_cast<const int16_t*>(items)[i]);
    case HT_VALUE_U32: return PyLong_FromUnsignedLong(static_cast<const uint32_t*>(items)[i]);
    case HT_VALUE_I32: return PyLong_FromLong(static_cast<const int32_t*>(items)[i]);
    case HT_VALUE_U64: return PyLong_FromUnsignedLongLong(static_cast<const uint64_t*>(items)[i]);
    case HT_VALUE_I64: return PyLong_FromLongLong(static_cast<const int64_t*>(items)[i]);
    case HT_VALUE_F32: return PyFloat_FromDouble(static_cast<const float*>(items)[i]);
    case HT_VALUE_F64: return PyFloat_FromDouble(static_cast<const double*>(items)[i]);
    case HT_VALUE_BOOL: return PyBool_FromLong(static_cast<const uint8_t*>(items)[i]);
    case HT_VALUE_STRING: return text_of(static_cast<const ht_string*>(items)[i]);
    case HT_VALUE_ARRAY: return to_python(static_cast<const ht_value*>(items)[i]);
  }
  PyErr_Format(PyExc_ValueError, "metadata has the unknown type %d", static_cast<int>(type));
  return nullptr;
}

PyObject* to_python(const ht_value& value) {
  switch (value.type) {
    case HT_VALUE_U8:
    case HT_VALUE_U16:
    case HT_VALUE_U32:
    case HT_VALUE_U64: return PyLong_FromUnsignedLongLong(value.as.u64);
    case HT_VALUE_I8:
    case HT_VALUE_I16:
    case HT_VALUE_I32:
    case HT_VALUE_I64: return PyLong_FromLongLong(value.as.i64);
    case HT_VALUE_F32:
    case HT_VALUE_F64: return PyFloat_FromDouble(value.as.f64);
    case HT_VALUE_BOOL: return PyBool_FromLong(value.as.u64 != 0);
    case HT_VALUE_STRING: return text_of(value.as.text);
    case HT_VALUE_ARRAY:
      return list_of(value.count, [&](size_t i) { return item_of(value.item_type, value.as.items, i); });
  }
  PyErr_Format(PyExc_ValueError, "metadata has the unknown type %d", static_cast<int>(value.type));
  return nullptr;
}

Metadata::~Metadata() {
  for (size_t i = 0; i < owned_count_; ++i) PyMem_Free(owned_[i]);
  PyMem_Free(owned_);
}

void* Metadata::allocate(size_t bytes) {
  void** grown = static_cast<void**>(PyMem_Realloc(owned_, (owned_count_ + 1) * sizeof(void*)));
  if (grown) owned_ = grown;
  void* memory = grown ? PyMem_Calloc(bytes ? bytes : 1, 1) : nullptr;
  if (!memory) {
    PyErr_NoMemory();
    return nullptr;
  }
  owned_[owned_count_++] = memory;
  return memory;
}

bool Metadata::to_text(PyObject* object, ht_string* out) {
  Py_ssize_t size = 0;
  out->data = PyUnicode_AsUTF8AndSize(object, &size);
  out->size = static_cast<size_t>(size);
  if (out->data) return true;
  if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return false;
  PyErr_Clear();
  const Ref bytes(PyUnicode_AsEncodedString(object, "utf-8", "surrogateescape"));
  char* data = nullptr;
  if (!bytes || PyBytes_AsStringAndSize(bytes.get(), &data, &size) != 0) return false;
  void* copy = allocate(static_cast<size_t>(size));
  if (!copy) return false;
  memcpy(copy, data, static_cast<size_t>(size));
  *out = {static_cast<const char*>(copy), static_cast<size_t>(size)};
  return true;
}

PyObject* to_typed(const ht_value& value) {
  const int type = static_cast<int>(value.type);
  if (value.type != HT_VALUE_ARRAY) return Py_BuildValue("(iN)", type, to_python(value));
  if (value.item_type != HT_VALUE_ARRAY)
    return Py_BuildValue("(iiN)", type, static_cast<int>(value.item_type), to_python(value));
  const auto* items = static_cast<const ht_value*>(value.as.items);
  return Py_BuildValue("(iiN)", type, static_cast<int>(value.item_type),
                       list_of(value.count, [&](size_t i) { return to_typed(items[i]); }));
}

template <class T>
static void store(void* items, size_t i, T value) {
  memcpy(static_cast<char*>(items) + i * sizeof value, &value, sizeof value);
}

static size_t width_of(ht_value_type type) {
  switch (type) {
    case HT_VALUE_U8:
    case HT_VALUE_I8:
    case HT_VALUE_BOOL: return 1;
    case HT_VALUE_U16:
    case HT_VALUE_I16: return 2;
    case HT_VALUE_U32:
    case HT_VALUE_I32:
    case HT_VALUE_F32: return 4;
    case HT_VALUE_U64:
    case HT_VALUE_I64:
    case HT_VALUE_F64: return 8;
    case HT_VALUE_STRING: return sizeof(ht_string);
    case HT_VALUE_ARRAY: return sizeof(ht_value);
  }
  return 0;
}

static bool store_number(ht_value_type type, PyObject* object, void* items, size_t i) {
  const size_t width = width_of(type);
  if (type == HT_VALUE_F32 || type == HT_VALUE_F64) {
    const double number = PyFloat_AsDouble(object);
    if (number == -1 && PyErr_Occurred()) return false;
    if (type == HT_VALUE_F64)
      store(items, i, number);
    else
      store(items, i, static_cast<float>(number));
    return true;
  }
  // In two's complement, the low bytes of a wide signed number are the bytes of the narrow one.
  const bool is_signed =
      type == HT_VALUE_I8 || type == HT_VALUE_I16 || type == HT_VALUE_I32 || type == HT_VALUE_I64;
  const uint64_t bits = is_signed ? static_cast<uint64_t>(PyLong_AsLongLong(object))
                                  : static_cast<uint64_t>(PyLong_AsUnsignedLongLong(object));
  if (bits == static_cast<uint64_t>(-1) && PyErr_Occurred()) return false;
  switch (width) {
    case 1: store(items, i, static_cast<uint8_t>(bits)); break;
    case 2: store(items, i, static_cast<uint16_t>(bits)); break;
    case 4: store(items, i, static_cast<uint32_t>(bits)); break;
    default: store(items, i, bits); break;
  }
  return true;
}

bool Metadata::to_value(PyObject* typed, ht_value* out) {
  int type = 0, item_type = 0;
  PyObject* object = nullptr;
  if (PyTuple_Size(typed) == 3) {
    if (!PyArg_ParseTuple(typed, "iiO!", &type, &item_type, &PyList_Type, &object)) return false;
    const size_t count = static_cast<size_t>(PyList_Size(object));
    out->type = HT_VALUE_ARRAY;
    out->item_type = static_cast<ht_value_type>(item_type);
    out->count = count;
    void* items = allocate(count * width_of(out->item_type));
    if (!items) return false;
    out->as.items = items;
    for (size_t i = 0; i < count; ++i) {
      PyObject* item = PyList_GetItem(object, static_cast<Py_ssize_t>(i));
      const bool ok = out->item_type == HT_VALUE_STRING  ? to_text(item, static_cast<ht_string*>(items) + i)
                      : out->item_type == HT_VALUE_ARRAY ? to_value(item, static_cast<ht_value*>(items) + i)
                                                         : store_number(out->item_type, item, items, i);
      if (!ok) return false;
    }
    return true;
  }
  if (!PyArg_ParseTuple(typed, "iO", &type, &object)) return false;
  out->type = static_cast<ht_value_type>(type);
  if (out->type == HT_VALUE_STRING) return to_text(object, &out->as.text);
  if (out->type == HT_VALUE_F32) {  // ht_value stores F32 as a double, too
    out->as.f64 = PyFloat_AsDouble(object);
    return !PyErr_Occurred();
  }
  const bool is_signed =
      type == HT_VALUE_I8 || type == HT_VALUE_I16 || type == HT_VALUE_I32 || type == HT_VALUE_I64;
  const ht_value_type wide = out->type == HT_VALUE_F64 ? HT_VALUE_F64
                             : is_signed               ? HT_VALUE_I64
                                                       : HT_VALUE_U64;
  return store_number(wide, object, &out->as, 0);
}

bool Metadata::set(PyObject* dict) {
  const Py_ssize_t size = PyDict_Size(dict);
  if (size < 0 || !items_.allocate(static_cast<size_t>(size))) return false;
  PyObject *key = nullptr, *typed = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &key, &typed)) {
    if (!to_text(key, &items_[count_].key) || !to_value(typed, &items_[count_].value)) return false;
    ++count_;
  }
  return true;
}

}  // namespace htpy
