/** Reads the commands of a section of a page, and the places where the reader has to do something by hand. */
import { readFileSync } from 'node:fs';

/** @property commands lines of one block, in order */
export type Block = { commands: string[] };

/** @returns the blocks of the section that are marked `sh`, in order; lines that are joined by a backslash are one */
export function readBlocks(file: string, heading: string): Block[] {
  const text = readFileSync(file, 'utf8');
  const [, section] = text.split(`\n## ${heading}\n`);
  if (section === undefined) throw new Error(`${file} has no section "${heading}".`);
  const [body = ''] = section.split('\n## ');
  return [...body.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, code = '']) => ({
    commands: code
      .replaceAll('\\\n', ' ')
      .split('\n')
      .filter((line) => line.trim() !== '' && !line.startsWith('#')),
  }));
}
