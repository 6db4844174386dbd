fn main() {
    let x: i32 = "text";
    let unused = missing;
}
