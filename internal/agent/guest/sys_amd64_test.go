package guest_test

const sysMkdir = 83
