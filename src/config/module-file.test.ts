/** The compiler renames imports only: these paths must follow. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { moduleFile } from './module-file.ts';

test('a module that is started by its path is TypeScript in a clone and JavaScript in a package', () => {
  const module = new URL('file:///opt/a%20b/src/c.ts');
  assert.equal(moduleFile(module), '/opt/a b/src/c.ts');
  assert.equal(
    moduleFile(module, 'file:///opt/a%20b/src/config/module-file.js'),
    '/opt/a b/src/c.js',
  );
});
