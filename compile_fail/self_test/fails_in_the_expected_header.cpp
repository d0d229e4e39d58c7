// accepted
#include <header.hpp>

#ifdef HT_FAIL
int number() { return doubled(1); }  // expect-inside: doubled
#endif
