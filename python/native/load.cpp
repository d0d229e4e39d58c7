// Calls for loading, the page cache and residency.
#include <cstring>

#include "native.hpp"

namespace htpy {

static const char* const strategy_names[] = {"automatic", "mapped", "read", "staged", "external"};

static PyObject* size_or_none(uint64_t bytes) {
  if (bytes == UINT64_MAX) Py_RETURN_NONE;
  return PyLong_FromUnsignedLongLong(bytes);
}

static PyObject* to_dict(const ht_load_report& loaded) {
  Ref dict(PyDict_New());
  const auto number = [](uint64_t bytes) { return PyLong_FromUnsignedLongLong(bytes); };
  const bool ok = dict && put(dict.get(), "strategy", text_of(strategy_names[loaded.strategy])) &&
                  put(dict.get(), "code", text_of(loaded.code)) &&
                  put(dict.get(), "reason", text_of(loaded.reason)) &&
                  put(dict.get(), "requested_bytes", number(loaded.requested_bytes)) &&
                  put(dict.get(), "bytes", number(loaded.bytes)) &&
                  put(dict.get(), "resident_bytes", number(loaded.resident_bytes)) &&
                  put(dict.get(), "cached_bytes", size_or_none(loaded.cached_bytes)) &&
                  put(dict.get(), "streamed_bytes", number(loaded.streamed_bytes)) &&
                  put(dict.get(), "direct_bytes", number(loaded.direct_bytes)) &&
                  put(dict.get(), "verified_bytes", number(loaded.verified_bytes)) &&
                  put(dict.get(), "peak_memory_bytes", size_or_none(loaded.peak_memory_bytes)) &&
                  put(dict.get(), "seconds", PyFloat_FromDouble(loaded.seconds));
  return ok ? dict.release() : nullptr;
}

static bool fill_load_options(PyObject* dict, ht_load_options* options) {
  static const Field fields[] = {
      {"strategy", Kind::enumeration, offsetof(ht_load_options, strategy)},
      {"budget", Kind::u64, offsetof(ht_load_options, budget_bytes)},
      {"chunks", Kind::u32, offsetof(ht_load_options, chunks)},
      {"chunk_bytes", Kind::u64, offsetof(ht_load_options, chunk_bytes)},
      {"verify", Kind::flag, offsetof(ht_load_options, verify)},
      {"drop_after", Kind::flag, offsetof(ht_load_options, drop_after)},
  };
  options->size = sizeof *options;
  return fill(dict, fields, sizeof fields / sizeof *fields, options);
}

// load(model, include, exclude, options, progress)
static PyObject* load(PyObject*, PyObject* arguments) {
  PyObject *model = nullptr, *include = nullptr, *exclude = nullptr, *dict = nullptr, *progress = nullptr;
  if (!PyArg_ParseTuple(arguments, "OO!O!O!O", &model, &PyList_Type, &include, &PyList_Type, &exclude,
                        &PyDict_Type, &dict, &progress))
    return nullptr;
  const Use use(handle_of(model));
  Filter filter;
  ht_load_options options{};
  if (!use || !filter.set(include, exclude) || !fill_load_options(dict, &options)) return nullptr;
  options.filter = filter.get();
  Result<ht_load_report> loaded;
  Work work(progress);
  if (!work.run([&](const ht_work* state, ht_error** error) {
        options.work = state;
        return ht_model_load(use.model(), &options, loaded.out(), error);
      }))
    return nullptr;
  return to_dict(*loaded.operator->());
}

struct Places {
  Block<Py_buffer> views;  // by index of the tensor; `obj` is null for a tensor that is skipped
  size_t count = 0;
  ~Places() {
    for (size_t i = 0; i < count; ++i)
      if (views[i].obj) PyBuffer_Release(&views[i]);
  }
};

static void* place(void* context, const ht_tensor_info* info) {
  auto* places = static_cast<Places*>(context);
  if (info->index >= places->count) return nullptr;
  return places->views[info->index].obj ? places->views[info->index].buf : nullptr;
}

// load_into(model, {name: writable buffer}, options, progress)
static PyObject* load_into(PyObject*, PyObject* arguments) {
  PyObject *model = nullptr, *targets = nullptr, *dict = nullptr, *progress = nullptr;
  if (!PyArg_ParseTuple(arguments, "OO!O!O", &model, &PyDict_Type, &targets, &PyDict_Type, &dict, &progress))
    return nullptr;
  const Use use(handle_of(model));
  ht_load_options options{};
  if (!use || !fill_load_options(dict, &options)) return nullptr;
  Places places;
  const size_t count = ht_model_count(use.model());
  if (!places.views.allocate(count)) return nullptr;
  places.count = count;
  PyObject *key = nullptr, *target = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(targets, &position, &key, &target)) {
    size_t index = 0;
    ht_tensor_info info{};
    if (!find_tensor(use.model(), key, &index) || !describe(use.model(), index, &info)) return nullptr;
    if (PyObject_GetBuffer(target, &places.views[index], PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) != 0) {
      places.views[index].obj = nullptr;
      return nullptr;
    }
    if (static_cast<uint64_t>(places.views[index].len) != info.byte_size) {
      PyErr_Format(PyExc_ValueError, "tensor %R needs a buffer of %llu bytes but its buffer has %zd", key,
                   static_cast<unsigned long long>(info.byte_size), places.views[index].len);
      return nullptr;
    }
  }
  Result<ht_load_report> loaded;
  Work work(progress);
  if (!work.run([&](const ht_work* state, ht_error** error) {
        options.work = state;
        return ht_model_load_into(use.model(), place, &places, &options, loaded.out(), error);
      }))
    return nullptr;
  return to_dict(*loaded.operator->());
}

// prefetch(model, include, exclude, progress)
static PyObject* prefetch(PyObject*, PyObject* arguments) {
  PyObject *model = nullptr, *include = nullptr, *exclude = nullptr, *progress = nullptr;
  if (!PyArg_ParseTuple(arguments, "OO!O!O", &model, &PyList_Type, &include, &PyList_Type, &exclude,
                        &progress))
    return nullptr;
  const Use use(handle_of(model));
  Filter filter;
  if (!use || !filter.set(include, exclude)) return nullptr;
  uint64_t bytes = 0;
  Work work(progress);
  if (!work.run([&](const ht_work* state, ht_error** error) {
        return ht_model_prefetch(use.model(), filter.get(), state, &bytes, error);
      }))
    return nullptr;
  return PyLong_FromUnsignedLongLong(bytes);
}

// evict(model, include, exclude)
static PyObject* evict(PyObject*, PyObject* arguments) {
  PyObject *model = nullptr, *include = nullptr, *exclude = nullptr;
  if (!PyArg_ParseTuple(arguments, "OO!O!", &model, &PyList_Type, &include, &PyList_Type, &exclude))
    return nullptr;
  const Use use(handle_of(model));
  Filter filter;
  if (!use || !filter.set(include, exclude)) return nullptr;
  uint64_t bytes = 0;
  if (!unlocked([&](ht_error** error) { return ht_model_evict(use.model(), filter.get(), &bytes, error); }))
    return nullptr;
  return PyLong_FromUnsignedLongLong(bytes);
}

// residency(model) lists (state, bytes, cached bytes or None, resident bytes) of each tensor.
static PyObject* residency(PyObject*, PyObject* model) {
  static const char* const names[] = {"unbound", "mapped", "loading", "resident", "evicted", "failed"};
  const Use use(handle_of(model));
  if (!use) return nullptr;
  const size_t count = ht_model_count(use.model());
  Block<ht_residency> found(count);
  if (!found.ok()) return nullptr;
  if (!unlocked(
          [&](ht_error** error) { return ht_model_residency(use.model(), 0, count, found.data(), error); }))
    return nullptr;
  return list_of(count, [&](size_t i) -> PyObject* {
    Ref cached(size_or_none(found[i].cached_bytes));
    if (!cached) return nullptr;
    return Py_BuildValue("(sKOK)", names[found[i].residence], static_cast<unsigned long long>(found[i].bytes),
                         cached.get(), static_cast<unsigned long long>(found[i].resident_bytes));
  });
}

PyMethodDef load_functions[] = {
    {"load", load, METH_VARARGS, nullptr},         {"load_into", load_into, METH_VARARGS, nullptr},
    {"prefetch", prefetch, METH_VARARGS, nullptr}, {"evict", evict, METH_VARARGS, nullptr},
    {"residency", residency, METH_O, nullptr},     {nullptr, nullptr, 0, nullptr}};

}  // namespace htpy
