# Compile and link options of all targets of this project. Consumers do not inherit them.
add_library(ht_flags INTERFACE)
target_compile_features(ht_flags INTERFACE cxx_std_20)
target_compile_options(ht_flags INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
# With optimization, g++ 12 wrongly reports overlapping copies in operator+ of strings (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(ht_flags INTERFACE $<$<NOT:$<CONFIG:Debug>>:-Wno-restrict>)
endif()
# With the thread sanitizer, g++ wrongly reports members of variant and optional as uninitialized. Uninitialized
# members are found by the presets without this sanitizer.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND HT_SANITIZE MATCHES "thread")
  target_compile_options(ht_flags INTERFACE -Wno-maybe-uninitialized)
endif()
if(HT_WERROR)
  target_compile_options(ht_flags INTERFACE -Werror)
endif()
if(HT_SANITIZE)
  target_compile_options(ht_flags INTERFACE -fsanitize=${HT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(ht_flags INTERFACE -fsanitize=${HT_SANITIZE})
endif()
# ThreadSanitizer leaves programs 1.5 TiB of addresses. With randomized addresses, a mapping of 1 TiB, which
# some tests create, does not always fit. Tests run without randomization if the system permits it.
if(HT_SANITIZE MATCHES "thread")
  execute_process(COMMAND setarch -R true RESULT_VARIABLE HT_SETARCH_FAILED OUTPUT_QUIET ERROR_QUIET)
  if(NOT HT_SETARCH_FAILED)
    set(CMAKE_CROSSCOMPILING_EMULATOR setarch -R)
  endif()
endif()

# The library's objects call coverage functions of the sanitizer runtime.
if(HT_FUZZ AND (NOT HT_SANITIZE OR NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang"))
  message(FATAL_ERROR "HT_FUZZ needs clang and HT_SANITIZE, as in the presets dev and fuzz")
endif()

# ccache and mold only save time; the build is the same without them.
find_program(HT_CCACHE ccache)
# Objects do not depend on the path of the project, so that a fresh clone reuses those of any other clone.
if(HT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${HT_CCACHE}")
endif()
# The compiler reports "virtual memory exhausted" if a file needs more memory than this limit: split the file,
# or instantiate fewer templates in it. tools/compile_cost.py BUILD prints the memory that each file needs.
set(HT_COMPILE_MEMORY "" CACHE STRING "Memory limit of the compiler for each file, in MiB; empty means unlimited")
find_program(HT_PRLIMIT prlimit)
if(HT_COMPILE_MEMORY AND HT_PRLIMIT)
  math(EXPR bytes "${HT_COMPILE_MEMORY} * 1048576")
  list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER "${HT_PRLIMIT}" "--data=${bytes}")
elseif(HT_COMPILE_MEMORY)
  message(STATUS "memory of the compiler: not limited, as prlimit was not found (util-linux)")
endif()
find_program(HT_MOLD mold)
if(HT_MOLD AND PROJECT_IS_TOP_LEVEL)
  target_link_options(ht_flags INTERFACE -fuse-ld=mold)
endif()

# Binaries contain no absolute paths: messages name files relative to the project's root.
target_compile_options(ht_flags INTERFACE "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")
