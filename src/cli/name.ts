/** Names that people give to projects and keys: what the API takes as well (http/schemas/common.ts). */
import { InvalidArgumentError } from 'commander';

export function parseName(text: string): string {
  const isOneLine = /^[^\u0000-\u001f\u007f]{1,100}$/u.test(text);
  if (isOneLine && text.trim() !== '') return text;
  throw new InvalidArgumentError('Write a name of 1 to 100 characters on one line.');
}
