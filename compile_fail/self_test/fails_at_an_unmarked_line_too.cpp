// refused: line 4 does not compile either
#ifdef HT_FAIL
int number() { return nothing; }  // expect: nothing
int other() { return nothing; }
#endif
