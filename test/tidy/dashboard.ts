/** The order of imports in web/src: lib, api, ui, then the features, which do not import one another. */
import { importsOf, isTest, type Rule } from './source.ts';

const SHARED = ['api', 'lib', 'ui'];
const MAY_IMPORT: Record<string, readonly string[]> = {
  lib: ['lib'],
  api: ['api', 'lib'],
  ui: SHARED,
  shell: [...SHARED, 'shell'],
  features: SHARED,
};

/** Features that show a part of another one. */
const EXCEPTIONS: Record<string, readonly string[]> = {
  // It sums up the others.
  overview: ['projects', 'queue'],
};

/** Files that the browser shares with the service: rules without a side effect, and the types of the API. */
const OF_THE_SERVICE =
  /^(?:src\/core\/|src\/mail\/html\/|src\/http\/roles\.ts$|sdk\/src\/api\.ts$)/;

export const dashboardLayersAreKept: Rule = (files) =>
  files
    .filter((file) => !isTest(file))
    .flatMap((file) =>
      importsOf(file)
        .filter((target) => isForbidden(file.path, target))
        .map((target) => `${file.path} must not import ${target}.`),
    );

function isForbidden(path: string, target: string): boolean {
  if (!target.startsWith('web/src/')) {
    return /^(?:src|sdk|test)\//.test(target) && !OF_THE_SERVICE.test(target);
  }
  const { layer, feature } = placeOf(path);
  const wanted = placeOf(target);
  // The root of web/src puts everything together.
  if (layer === '') return false;
  if (layer === 'features' && wanted.layer === 'features') {
    return wanted.feature !== feature && !EXCEPTIONS[feature]?.includes(wanted.feature);
  }
  return !MAY_IMPORT[layer]?.includes(wanted.layer);
}

function placeOf(path: string): { layer: string; feature: string } {
  const [layer = '', feature = '', file] = path.slice('web/src/'.length).split('/');
  if (feature === '') return { layer: '', feature: '' };
  return { layer, feature: file === undefined ? '' : feature };
}
