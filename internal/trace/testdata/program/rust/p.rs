fn load(n: usize) -> i32 {
    let v = vec![1, 2];
    v[n]
}

fn main() {
    println!("{}", load(9));
}
