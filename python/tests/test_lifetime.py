"""Lifetimes, files that change while they are open, threads, fork, pickling and subinterpreters."""

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import weakref

import numpy as np
import pytest
from conftest import mappings_of

import htensor


def run(program, *arguments):
    """Runs a Python program in a separate process."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_array_outlives_model_and_tensor(path, arrays):
    array = htensor.open(path)["blk.0.weight"].numpy()
    gc.collect()
    assert mappings_of(path) == 1
    assert np.array_equal(array, arrays["blk.0.weight"])
    view = array[1:, ::2]
    del array
    assert mappings_of(path) == 1 and np.array_equal(view, arrays["blk.0.weight"][1:, ::2])
    del view
    assert mappings_of(path) == 0


def test_memoryview_asarray_and_dlpack_capsule_keep_the_mapping(path, arrays):
    data = htensor.open(path)["ids"].data
    array = np.asarray(htensor.open(path)["ids"])
    capsule = htensor.open(path)["ids"].__dlpack__()
    gc.collect()
    assert data.readonly and bytes(data) == arrays["ids"].tobytes() and np.array_equal(array, arrays["ids"])
    assert "dltensor" in repr(capsule)
    del data, array, capsule
    assert mappings_of(path) == 0


def test_references_and_mappings_are_released(path):
    """After every kind of use, a model leaves no reference to the classes and no mapping of the file."""
    def use():
        model = htensor.open(path)
        for name, tensor in model.items():
            tensor.numpy(), tensor.to("float64", round=True), tensor[...], tensor.stats(), tensor.__dlpack__(), tensor.data
            np.from_dlpack(tensor)
        model.metadata, list(model.values()), model.files, repr(model)
        with pytest.raises(KeyError):
            model["x"]
        with pytest.raises(htensor.Error):
            htensor.verify(model)
        htensor.load(model, strategy="read")
        htensor.hash(model)

    use()
    gc.collect()
    native = htensor._model._native
    classes = [htensor.Model, htensor.Tensor, native.Buffer, native.Model]
    before = [sys.getrefcount(kind) for kind in classes]
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        use()
    gc.collect()
    assert [sys.getrefcount(kind) for kind in classes] == before
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert mappings_of(path) == 0


def test_memory_does_not_grow(path):
    program = """
        import sys, resource, htensor
        def use():
            for _ in range(2000):
                model = htensor.open(sys.argv[1])
                model["ids"].numpy(), model["ids"][0], model.metadata
                try: model["x"]
                except KeyError: pass
        use()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        use(), use()
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2048
    """
    done = run(program, path)
    assert done.returncode == 0, done.stderr


def test_models_and_tensors_support_weak_references(path):
    model = htensor.open(path)
    tensor = model["ids"]
    ends = []
    references = [weakref.ref(model, ends.append), weakref.ref(tensor, ends.append)]
    del model, tensor
    assert len(ends) == 2 and references[0]() is None


def test_replaced_file_stays_open(path, arrays):
    model = htensor.open(path)
    other = path.with_suffix(".new")
    other.write_bytes(b"something else")
    os.replace(other, path)
    assert np.array_equal(model["ids"].numpy(), arrays["ids"])
    assert np.array_equal(model["half"][1], arrays["half"][1])


def test_reading_a_truncated_array_raises_sigbus(big):
    program = """
        import os, sys, htensor
        array = htensor.open(sys.argv[1])["w"].numpy()
        os.truncate(sys.argv[1], 1 << 16)
        print(array[-1, -1])
    """
    assert run(program, big).returncode == -signal.SIGBUS


def test_zero_fill_reads_zeros_and_reports_it(tmp_path):
    path = tmp_path / "ones.npy"
    np.save(path, np.ones(1 << 20, np.float32))
    program = """
        import os, sys, htensor
        model = htensor.open(sys.argv[1], faults="zero_fill")
        array = model["ones"].numpy()
        model.check_faults()
        os.truncate(sys.argv[1], 1 << 16)
        assert array[10] == 1 and array[-1] == 0
        try:
            model.check_faults()
        except htensor.Error as error:
            print(error.code, error.path)
    """
    done = run(program, path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1] == str(path)


def test_faults_off_reads_by_system_calls(path, arrays):
    model = htensor.open(path, faults="off")
    assert np.array_equal(model["ids"][...], arrays["ids"])


def test_eight_threads_use_one_model(tmp_path):
    random = np.random.default_rng(1)
    arrays = {f"t{i}": random.normal(size=(64, 64)).astype(np.float32) for i in range(50)}
    path = tmp_path / "m.safetensors"
    htensor.save(path, arrays, {"k": "v"})
    model = htensor.open(path)
    shared = model["t0"]
    failures = []
    barrier = threading.Barrier(8)

    def work(number):
        try:
            barrier.wait()
            for i, (name, tensor) in enumerate(model.items()):
                if (i + number) % 3 == 0:
                    assert np.array_equal(tensor.numpy(), arrays[name])
                elif (i + number) % 3 == 1:
                    assert np.array_equal(tensor.to("float64"), arrays[name])
                else:
                    assert np.array_equal(tensor[::2, number], arrays[name][::2, number])
                assert model.metadata == {"k": "v"} and shared[0, 0] == arrays["t0"][0, 0]
            assert htensor.hash(model).digest == digest
            htensor.load(model)
        except BaseException as error:
            failures.append(error)

    digest = htensor.hash(path).digest
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_close_does_not_end_a_call_of_another_thread(big):
    model = htensor.open(big)
    expected = htensor.hash(big).digest
    results = []
    began, closed = threading.Event(), threading.Event()

    def wait(done, total):
        began.set()
        assert closed.wait(60)

    thread = threading.Thread(target=lambda: results.append(htensor.hash(model, progress=wait).digest))
    thread.start()
    assert began.wait(60)
    model.close()
    with pytest.raises(ValueError, match="closed"):
        htensor.hash(model)
    closed.set()
    thread.join()
    # The call began before the close, so it has the whole file.
    assert results == [expected]
    gc.collect()
    assert mappings_of(big) == 0


def test_long_calls_release_the_gil(big):
    counted = [0]
    stop = threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    htensor.hash(big)
    during = counted[0]
    stop.set()
    thread.join()
    assert during > 1000


def test_forked_child_uses_models_of_its_parent(path, arrays):
    model = htensor.open(path)
    array = model["ids"].numpy()
    htensor.hash(model)  # starts the threads of the library, which a child lacks
    child = os.fork()
    if child == 0:
        status = 1
        try:
            ok = np.array_equal(array, arrays["ids"]) and np.array_equal(model["half"][...], arrays["half"])
            ok = ok and model["blk.0.weight"].stats().count == 48
            ok = ok and np.array_equal(htensor.open(path)["ids"].to("int64"), arrays["ids"])
            ok = ok and bool(htensor.hash(model).digest) and bool(htensor.load(path, strategy="read"))
            status = 0 if ok else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert np.array_equal(model["half"][...], arrays["half"])


@pytest.mark.parametrize("function", [pickle.dumps, copy.copy, copy.deepcopy])
def test_pickling_is_refused(path, function):
    model = htensor.open(path)
    with pytest.raises(TypeError, match="cannot pickle htensor.Model"):
        function(model)
    with pytest.raises(TypeError, match="cannot pickle htensor.Tensor"):
        function(model["ids"])


def test_arrays_can_be_pickled(path, arrays):
    array = pickle.loads(pickle.dumps(htensor.open(path)["ids"].numpy()))
    assert np.array_equal(array, arrays["ids"])


def test_classes_cannot_be_instantiated():
    for kind in (htensor.Model, htensor.Tensor):
        with pytest.raises(TypeError):
            kind()


def test_subinterpreters_are_refused():
    program = """
        import htensor
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            import _interpreters as interpreters
        other = interpreters.create()
        code = '''
        try:
            import htensor
        except ImportError as error:
            assert "subinterpreter" in str(error), error
        else:
            raise SystemError("htensor was imported")
        '''
        import textwrap
        failed = interpreters.run_string(other, textwrap.dedent(code))
        assert failed is None, failed
        interpreters.destroy(other)
        assert htensor.crc64nvme(b"123456789") == 0xae8b14860a799888
    """
    done = run(program)
    assert done.returncode == 0, done.stderr


def test_objects_left_at_exit_cause_no_error(path):
    program = """
        import sys, htensor, threading
        model = htensor.from_bytes(bytearray(open(sys.argv[1], "rb").read()))
        array = model["ids"].numpy()
        capsule = model["ids"].__dlpack__()
        opened = htensor.open(sys.argv[1])
        htensor.hash(opened)
        sys.modules["kept"] = [model, array, capsule, opened, iter(opened)]
    """
    done = run(program, path)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_daemon_threads_with_progress_end_with_the_interpreter(big):
    program = f"""
import threading, time, htensor
model = htensor.open({str(big)!r})
started = threading.Event()
def work():
    while True:
        model["w"].stats(progress=lambda done, total: started.set())
threading.Thread(target=work, daemon=True).start()
started.wait()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


DAEMONS = """
import sys, threading, time, numpy, htensor
path, verb = sys.argv[1:]
model = htensor.open(path)
arrays = {f"t{i}": numpy.zeros(1 << 16, numpy.uint8) for i in range(8)}
started = threading.Semaphore(0)

def report(done, total):
    started.release()
    sum(range(300))

def work():
    while True:
        if verb == "to_bytes":
            htensor.to_bytes(arrays, progress=report)
        elif verb == "load":
            htensor.load(path, strategy="mapped", progress=report)
        elif verb == "errors":
            started.release()
            try:
                model["missing"]
            except KeyError:
                pass
        else:
            started.release()
            htensor.open(path)["w"].tobytes()

for _ in range(8):
    threading.Thread(target=work, daemon=True).start()
for _ in range(20):
    started.acquire()
"""


@pytest.mark.parametrize("verb", ["to_bytes", "load", "errors", "open"])
def test_eight_daemon_threads_end_with_the_interpreter(tmp_path, verb):
    path = tmp_path / "m.safetensors"
    htensor.save(path, {"w": np.zeros(1 << 20, np.uint8)})
    for _ in range(20):
        done = subprocess.run([sys.executable, "-c", DAEMONS, path, verb], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


def test_reloading_the_extension_keeps_the_types(path):
    program = """
        import importlib, sys, htensor
        model = htensor.open(sys.argv[1])
        native = htensor._model._native
        kinds = native.Model, native.Tensor, native.Buffer
        importlib.reload(native)
        assert (native.Model, native.Tensor, native.Buffer) == kinds
        assert type(model["ids"]) is htensor.Tensor and type(htensor.open(sys.argv[1])["ids"]) is htensor.Tensor
        del sys.modules["htensor._native"]
        import htensor._native as again
        assert again.Model is kinds[0] and htensor.hash(model).digest == htensor.hash(sys.argv[1]).digest
        for name in [name for name in sys.modules if name.split(".")[0] == "htensor"]:
            del sys.modules[name]
        import htensor as new
        assert type(new.open(sys.argv[1])["ids"]) is new.Tensor
    """
    done = run(program, path)
    assert done.returncode == 0, done.stderr


def test_freeing_a_loaded_model_releases_the_gil(tmp_path):
    path = tmp_path / "m.safetensors"
    htensor.save(path, {"w": np.ones(128 << 20, np.uint8)})
    program = """
        import sys, threading, time, htensor
        turns = 0
        def work():
            global turns
            while True:
                turns += 1
                time.sleep(0)  # releases the GIL
        threading.Thread(target=work, daemon=True).start()
        during = 0
        # The other thread may be scheduled too late to run during one of the short calls.
        for _ in range(100):
            model = htensor.load(sys.argv[1], strategy="read")
            # With this interval, no other thread can make the main thread release the GIL.
            sys.setswitchinterval(1000)
            before = turns
            del model
            during += turns - before
            sys.setswitchinterval(0.005)
            if during:
                break
        assert during > 0
    """
    done = run(program, path)
    assert done.returncode == 0, done.stderr


def test_crc64nvme_of_a_truncated_file_raises(path):
    data = htensor.open(path)["blk.0.weight"].data
    with path.open("r+b") as file:
        file.truncate(0)
    with pytest.raises(htensor.Error) as caught:
        htensor.crc64nvme(data)
    assert caught.value.code == "changed_underfoot"
