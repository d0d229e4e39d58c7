# What every target of this project is compiled with; nothing of it reaches a consumer.
add_library(ht_flags INTERFACE)
target_compile_features(ht_flags INTERFACE cxx_std_20)
target_compile_options(ht_flags INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
# Optimising, g++ 12 sees overlapping copies in the string operator+ where there are none (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(ht_flags INTERFACE $<$<NOT:$<CONFIG:Debug>>:-Wno-restrict>)
endif()
if(HT_WERROR)
  target_compile_options(ht_flags INTERFACE -Werror)
endif()
if(HT_SANITIZE)
  target_compile_options(ht_flags INTERFACE -fsanitize=${HT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(ht_flags INTERFACE -fsanitize=${HT_SANITIZE})
endif()
# The thread sanitizer leaves programs 1.5 TiB of addresses, and where they are laid out at random there is not always room
# for the mapping of 1 TiB that some tests make. So these run without that, where the system lets them.
if(HT_SANITIZE MATCHES "thread")
  execute_process(COMMAND setarch -R true RESULT_VARIABLE HT_SETARCH_FAILED OUTPUT_QUIET ERROR_QUIET)
  if(NOT HT_SETARCH_FAILED)
    set(CMAKE_CROSSCOMPILING_EMULATOR setarch -R)
  endif()
endif()

# Objects of the library call the coverage functions of the sanitizers.
if(HT_FUZZ AND (NOT HT_SANITIZE OR NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang"))
  message(FATAL_ERROR "HT_FUZZ needs clang and HT_SANITIZE, as the presets dev and fuzz have them")
endif()

# Both only save time; without them the build is the same.
find_program(HT_CCACHE ccache)
# Objects are the same wherever the project's folder lies, so that a fresh clone finds those of any other.
if(HT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${HT_CCACHE}")
endif()
# The compiler ends with "virtual memory exhausted" where a file needs more: split it, or instantiate fewer templates in it.
# tools/compile_cost.py BUILD shows what files need.
set(HT_COMPILE_MEMORY "" CACHE STRING "The most MiB that compiling a file may take; empty is no limit")
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

# The program's paths do not end up in the binary: messages name files from the project's root.
target_compile_options(ht_flags INTERFACE "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")
