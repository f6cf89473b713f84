# cmake -DNM=<nm> -DOBJECTS=<objects, separated by commas> -P isa_symbols.cmake
#
# An object compiled for one instruction set must define nothing but functions and data of its own
# namespace. A weak symbol in it (an inline function or a template of some header) is one that the
# linker may keep for the whole program, which then dies where the instructions are missing.
string(REPLACE "," ";" objects "${OBJECTS}")
set(looked_at 0)
set(found "")
foreach(object IN LISTS objects)
  if(NOT object MATCHES "/(avx2|avx512|avx512_vnni|amx)\\.cc\\.o$")
    continue()
  endif()
  set(isa ${CMAKE_MATCH_1})
  execute_process(COMMAND ${NM} -C --defined-only --extern-only ${object}
                  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" lines "${symbols}")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^[0-9a-f]+ [TDRB] cachalot::cpu::${isa}::")
      string(APPEND found "\n${object}: ${line}")
    endif()
  endforeach()
  math(EXPR looked_at "${looked_at} + 1")
endforeach()
if(looked_at EQUAL 0)
  message(FATAL_ERROR "no object of an instruction set among: ${OBJECTS}")
endif()
if(found)
  message(FATAL_ERROR "symbols that could leak into the program:${found}")
endif()
message("${looked_at} objects define only what is theirs")
