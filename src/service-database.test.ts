import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withoutPassword } from './service-database.ts';

test('the address of a database is shown without its password, wherever that stands', () => {
  const shown = [
    'postgres://jo:secret@db.example.org:5432/posthorn',
    'postgresql://jo@db.example.org/posthorn?password=secret&sslmode=require',
    'postgres://jo:secret@localhost/posthorn?host=/run/postgresql&password=secret&password=secret',
    'postgres://jo@localhost/posthorn?host=/run/postgresql',
  ].map(withoutPassword);
  assert.deepEqual(shown, [
    'postgres://jo@db.example.org:5432/posthorn',
    'postgresql://jo@db.example.org/posthorn?sslmode=require',
    'postgres://jo@localhost/posthorn?host=%2Frun%2Fpostgresql',
    'postgres://jo@localhost/posthorn?host=/run/postgresql',
  ]);
});
