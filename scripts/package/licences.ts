/** The notices that the licences of bundled packages ask for, as Markdown. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

type Manifest = {
  name: string;
  version: string;
  license?: string;
  author?: string | { name: string };
};

/** @param folders of the bundled packages */
export function licencesOf(folders: readonly string[]): string {
  return `# Licences

The files in \`src\` contain these packages.
${folders.map(noticeOf).toSorted().join('')}`;
}

/** Some packages have no file with their licence, and name it and the author only. */
function noticeOf(folder: string): string {
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
  const { name, version, license = 'without a named licence', author } = manifest;
  const [file] = globSync('{LICEN[CS]E,COPYING,licen[cs]e}*', { cwd: folder }).toSorted();
  const holder = typeof author === 'string' ? author : author?.name;
  const text =
    file === undefined
      ? `${license}, by ${holder ?? 'its authors'}`
      : readFileSync(join(folder, file), 'utf8').trim();
  return `\n## ${name} ${version}\n\n${text.replaceAll(/^/gm, '    ')}\n`;
}
