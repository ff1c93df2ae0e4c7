/** Reads the operator's file of limits per provider (POSTHORN_SHAPING). */
import { readFileSync } from 'node:fs';
import { parseShaping, type ShapingSettings, USUAL_SHAPING } from '../delivery/shaping-settings.ts';
import type { EnvReader } from './env-reader.ts';

const NAME = 'POSTHORN_SHAPING';

export function readShaping(read: EnvReader): ShapingSettings {
  const path = read.text(NAME);
  if (path === null) return USUAL_SHAPING;
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    const { code = 'error' } = error as NodeJS.ErrnoException;
    read.problem(NAME, `${path} cannot be read (${code}); write the path of a JSON file.`);
    return USUAL_SHAPING;
  }
  const parsed = parseShaping(text);
  if (!('problems' in parsed)) return parsed;
  for (const problem of parsed.problems) read.problem(NAME, `${path}: ${problem}.`);
  return USUAL_SHAPING;
}
