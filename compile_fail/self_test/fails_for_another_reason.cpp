// refused: does not match `convert`
#ifdef HT_FAIL
int number = nothing;  // expect: nothing
                       // expect: convert
#endif
