function f() {
  let x = ;
}
