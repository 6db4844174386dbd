export function f() {
  let x = ;
}
