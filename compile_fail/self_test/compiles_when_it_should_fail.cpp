// refused: compiles with -DHT_FAIL but must not
#ifdef HT_FAIL
int number() { return 1; }  // expect: error
#endif
