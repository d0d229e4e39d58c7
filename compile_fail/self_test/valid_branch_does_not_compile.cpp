// refused: the valid branch does not compile
int number() { return nothing; }
#ifdef HT_FAIL
int other() { return nothing; }  // expect: nothing
#endif
