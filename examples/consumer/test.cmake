# Installs the library that was just built and uses it as a stranger would: by find_package and by pkg-config.
# cmake -DBUILD=… -DWORK=… -DCOMPILER=… -DFLAGS=… -P test.cmake
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGV} ended with ${status}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(expected "consumer: [ 0 3 1 4 2 5 ], 18 bytes from the pool")
set(prefix "${WORK}/prefix")
file(REMOVE_RECURSE "${WORK}")

# Moved after it was installed: nothing in it may remember where it was.
run(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${WORK}/first")
file(RENAME "${WORK}/first" "${prefix}")
run("${prefix}/bin/htensor" version)
run(${CMAKE_COMMAND} -S "${CMAKE_CURRENT_LIST_DIR}" -B "${WORK}/build" -G Ninja -DCMAKE_PREFIX_PATH=${prefix}
  -DCMAKE_CXX_COMPILER=${COMPILER} "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror")
run(${CMAKE_COMMAND} --build "${WORK}/build")
run("${WORK}/build/consumer")
if(NOT output MATCHES "consumer: \\[ 0 3 1 4 2 5 \\], 18 bytes")
  message(FATAL_ERROR "the consumer printed '${output}' and not '${expected}'")
endif()

find_program(PKG_CONFIG pkg-config)
if(NOT PKG_CONFIG)
  message("pkg-config is not installed: its file was not tried")
  return()
endif()
file(GLOB_RECURSE pc "${prefix}/*/htensor.pc")
get_filename_component(folder "${pc}" DIRECTORY)
set(ENV{PKG_CONFIG_PATH} "${folder}")
run(${PKG_CONFIG} --cflags --libs htensor)
separate_arguments(flags UNIX_COMMAND "${output}")
run(${COMPILER} "${CMAKE_CURRENT_LIST_DIR}/main.cpp" -o "${WORK}/by_pkg_config" ${flags})
run("${WORK}/by_pkg_config")
