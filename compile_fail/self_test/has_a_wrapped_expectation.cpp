// refused: line 4: this comment is not an expectation; write each expectation on one line
#ifdef HT_FAIL
int number = nothing;  // expect: nothing|some
                       // thing
#endif
