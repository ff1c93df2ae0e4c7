/** Shows that the tests' object store verifies signatures like AWS. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { signatureOf } from './s3-server.ts';

test('the signature of the example in the S3 guide matches the guide', () => {
  const headers = {
    host: 'examplebucket.s3.amazonaws.com',
    range: 'bytes=0-9',
    'x-amz-content-sha256': 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    'x-amz-date': '20130524T000000Z',
  };
  const signature = signatureOf(
    { method: 'GET', url: '/test.txt', headers },
    {
      secret: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
      date: '20130524',
      region: 'us-east-1',
      signed: ['host', 'range', 'x-amz-content-sha256', 'x-amz-date'],
    },
  );
  assert.equal(signature, 'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41');
});
