// Example programs, one for each language. Each prints, and most write a file to look at.

/** A language in the page's list. */
export interface Language {
  /** Its name in requests. */
  name: string;
  label: string;
  /** Whether the compiled program must be executed in the workspace. */
  executed?: true;
  example: string;
}

export const languages: Language[] = [
  {
    name: "python", label: "Python",
    example: `import math

# The page shows pictures and tables that a program leaves.
points = [(x, 120 - 80 * math.sin(x / 40)) for x in range(0, 481, 4)]
line = " ".join(f"{x},{y:.1f}" for x, y in points)

with open("wave.svg", "w") as f:
    f.write('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 240">'
            '<rect width="480" height="240" fill="#f4f7f7"/>'
            f'<polyline points="{line}" fill="none" stroke="#0a6b66" stroke-width="3"/></svg>')

print("hello from a sealed jar")
print("wrote wave.svg with", len(points), "points")
`,
  },
  {
    name: "javascript", label: "JavaScript",
    example: `import { writeFileSync } from "node:fs";

const rows = Array.from({ length: 12 }, (_, n) => [n, n * n, 2 ** n]);
writeFileSync("powers.csv", "n,square,power\\n" + rows.map((row) => row.join(",")).join("\\n") + "\\n");
console.log(\`hello from Node \${process.version}: wrote powers.csv\`);
`,
  },
  {
    name: "typescript", label: "TypeScript",
    example: `const primes = (limit: number): number[] =>
  Array.from({ length: limit }, (_, n) => n).filter((n) => n > 1 && !Array.from({ length: n }, (_, d) => d).some((d) => d > 1 && n % d === 0));

console.log(primes(50));
`,
  },
  {
    name: "shell", label: "Shell",
    example: `echo "who: $(id -un), processes: $(ls -d /proc/[0-9]* | wc -l)"
echo "network: $(cat /proc/net/dev | tail -n +3 | cut -d: -f1 | xargs)"
for i in 1 2 3 4 5; do
  echo "step $i of 5"
  sleep 0.5
done
`,
  },
  {
    name: "go", label: "Go", executed: true,
    example: `package main

import "fmt"

func main() {
	a, b := 0, 1
	for range 20 {
		fmt.Print(a, " ")
		a, b = b, a+b
	}
	fmt.Println()
}
`,
  },
  {
    name: "c", label: "C", executed: true,
    example: `#include <stdio.h>

int main(void) {
    for (int i = 1; i <= 5; i++)
        printf("%d squared is %d\\n", i, i * i);
    return 0;
}
`,
  },
  {
    name: "c++", label: "C++", executed: true,
    example: `#include <iostream>
#include <numeric>
#include <vector>

int main() {
    std::vector<int> numbers(100);
    std::iota(numbers.begin(), numbers.end(), 1);
    std::cout << "sum: " << std::accumulate(numbers.begin(), numbers.end(), 0) << "\\n";
}
`,
  },
  {
    name: "rust", label: "Rust", executed: true,
    example: `fn main() {
    let words = ["sealed", "jar"];
    println!("{}", words.join(" "));
}
`,
  },
  {
    name: "java", label: "Java",
    example: `class Main {
    public static void main(String[] args) {
        System.out.println("Java " + Runtime.version());
    }
}
`,
  },
  { name: "ruby", label: "Ruby", example: `5.times { |n| puts "#{n}: #{"*" * n}" }\n` },
  { name: "perl", label: "Perl", example: `print "$_ " for map { $_ ** 2 } 1 .. 10;\nprint "\\n";\n` },
];
