// refused: there is no error at line 5
#include <header.hpp>

#ifdef HT_FAIL
int number() { return doubled(1); }  // expect: doubled
#endif
