package guest_test

const sysMkdir = 1030 // not a call of this architecture
