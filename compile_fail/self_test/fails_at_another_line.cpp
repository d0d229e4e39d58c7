// refused: there is no error at line 4
#ifdef HT_FAIL
int number() { return nothing; }
int other() { return 1; }  // expect: nothing
#endif
