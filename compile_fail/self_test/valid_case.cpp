// accepted
#ifdef HT_FAIL
int number() { return nothing; }  // expect: nothing
#else
int number() { return 1; }
#endif
