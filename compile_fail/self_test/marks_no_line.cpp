// refused: no line is marked
#ifdef HT_FAIL
int number() { return nothing; }
#endif
