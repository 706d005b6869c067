export * from "./access";
export * from "./live";
export * from "./resource";
export * from "./source";
export * from "./types";
export * from "./work";
