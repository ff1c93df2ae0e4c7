/**
 * CHANGELOG.md as text: what the next release changes, and the same file after that release. Pure, so that the
 * release can check everything before it changes a file.
 */

const UNRELEASED = '## Unreleased\n';

/** Returns what stands under "Unreleased", without its heading; empty when nothing does. */
export function unreleasedNotes(changelog: string): string {
  const { notes } = splitChangelog(changelog);
  return notes.trim();
}

/** Returns the changelog with an empty "Unreleased" above the release. @param date as YYYY-MM-DD */
export function withRelease(changelog: string, release: { version: string; date: string }): string {
  const { before, notes, after } = splitChangelog(changelog);
  const heading = `## ${release.version} (${release.date})`;
  return `${before}${UNRELEASED}\n${heading}\n\n${notes.trim()}\n${after === '' ? '' : `\n${after}`}`;
}

/** @throws Error when the file has no "Unreleased" */
function splitChangelog(changelog: string): { before: string; notes: string; after: string } {
  const start = changelog.indexOf(UNRELEASED);
  if (start === -1) throw new Error('CHANGELOG.md has no line "## Unreleased".');
  const from = start + UNRELEASED.length;
  const next = changelog.indexOf('\n## ', from);
  const end = next === -1 ? changelog.length : next + 1;
  return {
    before: changelog.slice(0, start),
    notes: changelog.slice(from, end),
    after: changelog.slice(end),
  };
}
