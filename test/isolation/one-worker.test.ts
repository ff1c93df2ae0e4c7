/** Tests that one sender cannot delay another in a service with one worker. */
import { testMailShapes } from './mail-shapes.ts';
import { testRequestShapes } from './request-shapes.ts';

testMailShapes(1);
testRequestShapes(1);
