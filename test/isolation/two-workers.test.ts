/** Tests that one sender cannot delay another in a service with two workers. */
import { testMailShapes } from './mail-shapes.ts';
import { testRequestShapes } from './request-shapes.ts';

testMailShapes(2);
testRequestShapes(2);
