/**
 * The findings of `letterhaus doctor`. Every check reports at least one, so a report also lists the checks without a
 * problem.
 *
 *   red      blocks sending or loses mail
 *   yellow   hurts delivery, or will become red
 *   unknown  the check had no result; counts as neither right nor wrong
 *   green    no problem was found
 */
export const LEVELS = ['red', 'yellow', 'unknown', 'green'] as const;
export type Level = (typeof LEVELS)[number];

/** Every text is one or more sentences that name values. None contains a recipient's address or a password. */
export type Finding = {
  level: Level;
  /** The address, name or path that was checked, or null for the installation. */
  subject: string | null;
  found: string;
  /** The effect on mail; null when it is green. */
  meaning: string | null;
  /** An instruction; null when there is nothing to do. */
  remedy: string | null;
  /** A command for the shell that does it or shows more, or null when there is none. */
  command: string | null;
};

type Problem = { subject?: string | null; meaning: string; remedy: string; command?: string };

export function green(found: string, subject: string | null = null): Finding {
  return { level: 'green', subject, found, meaning: null, remedy: null, command: null };
}

export function red(found: string, problem: Problem): Finding {
  return withProblem('red', found, problem);
}

export function yellow(found: string, problem: Problem): Finding {
  return withProblem('yellow', found, problem);
}

/** @param help.remedy how to find out */
export function unknown(
  found: string,
  help: { subject?: string | null; remedy?: string; command?: string } = {},
): Finding {
  const { subject = null, remedy = null, command = null } = help;
  return { level: 'unknown', subject, found, meaning: null, remedy, command };
}

function withProblem(level: Level, found: string, problem: Problem): Finding {
  const { subject = null, meaning, remedy, command = null } = problem;
  return { level, subject, found, meaning, remedy, command };
}

/** @param levels not empty */
export function worstOf(levels: readonly Level[]): Level {
  return LEVELS.find((level) => levels.includes(level)) ?? 'unknown';
}
