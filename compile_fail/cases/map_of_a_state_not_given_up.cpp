// Mapping ends the state before it: whoever maps has to give the opened file up.
#include <htensor/io/mapped.hpp>
#include <utility>

ht::Result<ht::io::Mapped> map(ht::io::Opened& opened) {
#ifdef HT_FAIL
  return opened.map();  // expect: discards qualifiers|expects an rvalue
#else
  return std::move(opened).map();
#endif
}
