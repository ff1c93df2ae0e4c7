/** Splits off the variables with problems, so that commands that diagnose can work with the rest. */
import { readConfig } from '../config/config.ts';
import type { Env } from '../config/env-file.ts';

/** Without these, a command would look at another installation, so they stay and `readConfig` reports them. */
const WHERE = new Set(['DATABASE_URL', 'LETTERHAUS_DATA_DIR']);

/** @property problems one sentence for each variable that would end a start */
export function usableVariables(env: Env): { problems: string[]; env: Env } {
  const read = readConfig(env);
  if (read.ok) return { problems: [], env };
  const names = read.problems.map((problem) => problem.split(':', 1)[0] ?? '');
  if (names.some((name) => WHERE.has(name))) return { problems: [], env };
  const rest = Object.entries(env).filter(([name]) => !names.includes(name));
  return { problems: read.problems, env: Object.fromEntries(rest) };
}
