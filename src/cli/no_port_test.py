"""Without a port (the layer of all system calls on files), the program exits with 2 and prints the reason."""
import subprocess
import sys
import tempfile

program = sys.argv[1]
with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
    file.write(b"\x02\0\0\0\0\0\0\0{}")
    file.flush()
    for arguments in (["ls"], ["hash"], ["verify"], ["doctor"]):
        done = subprocess.run([program, *arguments, file.name], capture_output=True, text=True)
        assert done.returncode == 2, (arguments, done)
        assert "[unsupported_platform]" in done.stderr, (arguments, done)
        assert "hint: " in done.stderr, (arguments, done)
done = subprocess.run([program, "version"], capture_output=True, text=True)
assert done.returncode == 0, done
