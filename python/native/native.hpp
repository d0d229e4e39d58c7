// The extension module htensor._native: objects and calls of htensor.h for Python. Names, keywords, defaults
// and documentation are in python/htensor/*.py, so the functions here take fixed arguments.
//
// Threads: the GIL guards all state. A long call releases the GIL (class Work), and another thread may close
// the model meanwhile. Each Python object and each running call is therefore an owner of the `Handle`; the
// last owner frees the model.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cxxabi.h>
#include <structmember.h>

#include <htensor/htensor.h>

namespace htpy {

/// Whether the interpreter is shutting down.
bool is_finalizing();

/// Blocks the thread until the process exits.
[[noreturn]] void wait_for_exit();

/// Calls `call()`, which takes the GIL or runs Python code. While the interpreter shuts down, Python
/// before 3.14 ends a daemon thread at such a call by unwinding its stack. That would run destructors without
/// the GIL, and abort the process at the first noexcept function. Instead, the thread waits here until the
/// process exits. `call` must not have a local Ref: unwinding runs the destructor of a local Ref without the
/// GIL, before the handler below stops the thread.
template <class Call>
auto without_unwinding(Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    wait_for_exit();
  }
}

/// Takes the GIL that PyEval_SaveThread released.
inline void take_gil(PyThreadState* state) {
  without_unwinding([&] { PyEval_RestoreThread(state); });
}

/// Owns one reference to a Python object; may be empty.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  ~Ref() {
    without_unwinding([&] { Py_XDECREF(object_); });
  }
  PyObject* get() const { return object_; }
  PyObject* release() {
    PyObject* object = object_;
    object_ = nullptr;
    return object;
  }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

/// Zeroed memory for `count` items of a C type. If allocating fails, `ok()` is false and MemoryError is set.
template <class T>
class Block {
 public:
  Block() = default;
  explicit Block(size_t count) { allocate(count); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { PyMem_Free(items_); }
  bool allocate(size_t count) {
    items_ = static_cast<T*>(PyMem_Calloc(count ? count : 1, sizeof(T)));
    if (!items_) PyErr_NoMemory();
    return items_ != nullptr;
  }
  bool ok() const { return items_ != nullptr; }
  T* data() { return items_; }
  T& operator[](size_t i) { return items_[i]; }

 private:
  T* items_ = nullptr;
};

/// Owns a result of htensor.h.
template <class T>
class Result {
 public:
  Result() = default;
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  ~Result() { ht_result_free(result_); }
  const T** out() { return &result_; }
  const T* operator->() const { return result_; }

 private:
  const T* result_ = nullptr;
};

/// A model that Python objects and running calls own jointly.
struct Handle {
  ht_model* model;
  Py_ssize_t owners;
};

/// Adds an owner.
Handle* share(Handle* handle);
/// Removes an owner; the last one frees the model without the GIL. Accepts null.
void unshare(Handle* handle);

struct ModelObject {
  PyObject_HEAD Handle* handle;  // null if closed
  PyObject* metadata;            // the dict, or null before the first use
  PyObject* weak_references;
};

struct TensorObject {
  PyObject_HEAD Handle* handle;
  size_t index;
  ht_tensor* tensor;  // null before the first use of its bytes
  PyObject* weak_references;
  // Copied from ht_tensor_info, to make listing fast. `dims` belongs to the model.
  ht_type type;
  uint32_t bits;
  uint32_t rank;
  const int64_t* dims;
  uint64_t bytes;
};

extern PyTypeObject* model_type;
extern PyTypeObject* tensor_type;

// Every function below that can fail and returns a pointer or a bool sets a Python exception when it returns
// null or false.

/// Raises the exception for a failed call and frees `error`, which may be null. Returns null.
PyObject* raise(ht_status status, ht_error* error);

/// An exception object that describes the error; does not raise it.
PyObject* to_exception(ht_status status, const ht_error* error);

/// Returns the handle of an open model and adds an owner. Raises for a closed model and for other types.
Handle* handle_of(PyObject* model);

/// Returns the `ht_tensor`, which the Python object owns and creates at first use.
ht_tensor* tensor_of(TensorObject* tensor);

/// Keeps a handle for the duration of a call: the destructor removes the owner that `handle_of` added.
class Use {
 public:
  explicit Use(Handle* shared) : handle_(shared) {}
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() { unshare(handle_); }
  const ht_model* model() const { return handle_->model; }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  Handle* handle_;
};

/// Makes a call of htensor.h without the GIL: `call(&error)`.
template <class Call>
bool unlocked(Call call) {
  ht_error* error = nullptr;
  PyThreadState* const state = PyEval_SaveThread();
  const ht_status status = call(&error);
  take_gil(state);
  if (status == HT_OK) return true;
  raise(status, error);
  return false;
}

/// Progress and KeyboardInterrupt of a long call. During the call, `report` runs pending signal handlers (on
/// the main thread only), then the callback: at most every 20 ms, or every 100 ms without a callback. An
/// exception of either cancels the call and is raised from it.
class Work {
 public:
  /// `callback` is None or callable with (done_bytes, total_bytes, seconds); borrowed.
  explicit Work(PyObject* callback);

  /// Makes a call without the GIL: `call(&work, &error)`.
  template <class Call>
  bool run(Call call) {
    ht_error* error = nullptr;
    state_ = PyEval_SaveThread();
    const ht_status status = call(&work_, &error);
    take_gil(state_);
    return finish(status, error);
  }

 private:
  static int report(void* context, const ht_progress* progress);
  bool finish(ht_status status, ht_error* error);

  ht_work work_{};
  PyObject* callback_;
  PyThreadState* state_ = nullptr;
  double last_ = -1;
};

// Options are passed as a dict. A field of the C struct whose key is missing stays 0.

enum class Kind { flag, u32, u64, f64, enumeration, text, path };

/// One option: its key, its type and the offset of its field in the C struct.
struct Field {
  const char* key;
  Kind kind;
  size_t offset;
};

/// Writes the options of `dict` to the struct, which borrows their texts. TypeError for an unknown key.
bool fill(PyObject* dict, const Field* fields, size_t count, void* options);

/// A filter from two lists of patterns. Borrows the texts of the lists.
class Filter {
 public:
  bool set(PyObject* include, PyObject* exclude);
  const ht_filter* get() const { return is_set_ ? &filter_ : nullptr; }

 private:
  Block<const char*> include_, exclude_;
  ht_filter filter_{};
  bool is_set_ = false;
};

/// The texts of a list of str as C strings. ValueError for a NUL in a text.
bool texts_of(PyObject* list, Block<const char*>* out, size_t* count);

/// Fills the metadata of a save from a dict of normalized values (htensor/_metadata.py).
class Metadata {
 public:
  Metadata() = default;
  ~Metadata();
  Metadata(const Metadata&) = delete;
  Metadata& operator=(const Metadata&) = delete;
  bool set(PyObject* dict);
  /// Converts one typed value, a tuple as `to_typed` returns it. This object owns the memory of the result.
  bool to_value(PyObject* typed, ht_value* out);
  const ht_metadata_item* items() { return items_.data(); }
  size_t count() const { return count_; }

 private:
  /// Returns zeroed memory that this object owns.
  void* allocate(size_t bytes);
  /// Writes the UTF-8 bytes of a str. Surrogate escapes become the bytes that they stand for.
  bool to_text(PyObject* object, ht_string* out);

  Block<ht_metadata_item> items_;
  size_t count_ = 0;
  void** owned_ = nullptr;
  size_t owned_count_ = 0;
};

PyObject* to_python(const ht_value& value);
/// Returns a typed value as Metadata takes it: (type, value); for an array (9, item type, list of values);
/// for an array of arrays (9, 9, list of such tuples).
PyObject* to_typed(const ht_value& value);

/// Frees the memory of an object and its reference to its type, which PyType_FromSpec created. The last call
/// in `dealloc`.
void free_object(PyObject* object);

// Convert C texts to str.
PyObject* text_of(ht_string text);
PyObject* text_of(const char* text);
PyObject* path_of(const char* path);  // None for null
PyObject* hex_of(const ht_digest& digest);

/// Adds a value to a dict and drops the caller's reference; false if `value` is null.
bool put(PyObject* dict, const char* key, PyObject* value);
/// Builds a list of `count` items by `make(i)`.
template <class Make>
PyObject* list_of(size_t count, Make make) {
  Ref list(PyList_New(static_cast<Py_ssize_t>(count)));
  if (!list) return nullptr;
  for (size_t i = 0; i < count; ++i) {
    PyObject* item = make(i);
    if (!item || PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), item) != 0) return nullptr;
  }
  return list.release();
}

// Functions of the module, by file. A second initialization, such as by importlib.reload, adds the same
// types.
bool add_model_type(PyObject* module);
bool add_tensor_types(PyObject* module);
/// Finds a tensor by its name, a str. Raises NotFoundError, with the most similar name, if there is none.
bool find_tensor(const ht_model* model, PyObject* name, size_t* index);
/// Fills in the description of a tensor.
bool describe(const ht_model* model, size_t index, ht_tensor_info* info);
/// Creates a tensor object of the registered Python class. The caller adds an owner to `handle` before the
/// call. The tensor object becomes that owner; on failure, new_tensor removes that owner.
PyObject* new_tensor(Handle* handle, const ht_tensor_info& info);
PyObject* new_tensor(Handle* handle, size_t index);
void set_tensor_class(PyObject* python_class);

extern PyMethodDef model_functions[];
extern PyMethodDef load_functions[];
extern PyMethodDef integrity_functions[];
extern PyMethodDef convert_functions[];

}  // namespace htpy
