/** What Node's `spec` report says in the end, as numbers. */
import { stripVTControlCharacters } from 'node:util';

export type TestCounts = {
  passed: number;
  /** With those that were canceled, which means timed out or cut short. */
  failed: number;
  /** With those marked `todo`, which count as neither passed nor failed. */
  skipped: number;
  /** Files without a test: the runner shows each as one passed test with the path as its name. */
  emptyFiles: string[];
};

/** @param output all that `node --test --test-reporter=spec` wrote; tests' own output may be in it */
export function readTestReport(output: string): TestCounts {
  const text = stripVTControlCharacters(output);
  const last = (name: string) => {
    const all = [...text.matchAll(new RegExp(`^ℹ ${name} (\\d+)$`, 'gm'))];
    return Number(all.at(-1)?.[1] ?? 0);
  };
  const emptyFiles = [...text.matchAll(/^✔ (\S+\.test\.[jt]s) \(/gm)].map(
    (match) => match[1] ?? '',
  );
  return {
    passed: last('pass') - emptyFiles.length,
    failed: last('fail') + last('cancelled'),
    skipped: last('skipped') + last('todo'),
    emptyFiles,
  };
}
