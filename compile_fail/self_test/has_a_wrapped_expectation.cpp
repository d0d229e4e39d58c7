// refused: line 4: this comment is no expectation; a wrapped one would say less than was meant
#ifdef HT_FAIL
int number = nothing;  // expect: nothing|some
                       // thing
#endif
