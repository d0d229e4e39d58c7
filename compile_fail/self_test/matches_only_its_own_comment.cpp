// refused: does not match `wonderful`
#ifdef HT_FAIL
int number() { return nothing; }  // expect: wonderful
#endif
