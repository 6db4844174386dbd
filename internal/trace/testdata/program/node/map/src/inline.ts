interface Item {
  name: string;
}

export function load(item: Item | null): string {
  return item!.name;
}

load(null);
