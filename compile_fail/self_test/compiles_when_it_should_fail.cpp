// refused: it compiles with -DHT_FAIL, though it must not
#ifdef HT_FAIL
int number() { return 1; }  // expect: error
#endif
